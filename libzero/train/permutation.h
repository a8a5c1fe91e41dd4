#pragma once

/// A shuffle that needs no memory.

#include <array>
#include <cstdint>

namespace zero {

/// A permutation of 0 ... count - 1 that depends on (count, seed, epoch) alone, the same on every
/// machine and in every version of libzero; any of its elements costs some hundred nanoseconds.
///
/// It is the swap-or-not shuffle (Hoang, Morris, Rogaway, CRYPTO 2012) of 64 rounds. With mix64 and
/// kGoldenGamma of libzero/base/mix64.h, in arithmetic modulo 2^64,
///
///   key = mix64(mix64(seed + kGoldenGamma) + epoch + kGoldenGamma)
///   of round r = 0 ... 63:
///     a = mix64(key + (2r + 1) kGoldenGamma), b = mix64(key + (2r + 2) kGoldenGamma)
///     partner = (a mod count - x) mod count
///     x = partner if bit 0 of mix64(b + max(x, partner)) is set
///
/// at(i) is what x = i has become. Thread-safe.
class Permutation {
 public:
  /// Throws ContractError for a count below 1 or an epoch below 0.
  Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

  /// Of the indices that it permutes.
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(count_); }

  /// Throws ContractError unless 0 <= index < count().
  std::int64_t at(std::int64_t index) const;

 private:
  static constexpr std::size_t kRounds = 64;
  struct Round {
    std::uint64_t turn;  ///< Below count.
    std::uint64_t key;
  };

  std::uint64_t count_;
  std::array<Round, kRounds> rounds_;
};

}  // namespace zero
