#pragma once

/// A sum of doubles that does not depend on the order of its terms, nor on how they are spread over
/// ranks.

#include <array>
#include <cstdint>
#include <span>

#include "libzero/kernels/exact_digits.h"

namespace zero {

/// The exact sum of non-negative doubles, held as a fixed-point number of kWords digits to base
/// 2^32 in int64 words. Word k weighs 2^(32 k + kLowestExponent). Integer addition has no rounding,
/// so ranks add their words by an integer all-reduce and get the same bits for every order, world
/// size and thread count.
///
/// Each term must be zero or a multiple of 2^kLowestExponent below 2^kTermLimitExponent: sums of
/// squares of any finite float32 values in blocks of up to 2^32 elements are. Not thread-safe; copy
/// freely.
class ExactSum {
 public:
  static constexpr int kWords = kExactWords;
  static constexpr int kDigitBits = kExactDigitBits;
  static constexpr int kLowestExponent = kExactLowestExponent;
  /// The last word is left to carries.
  static constexpr int kTermLimitExponent = kLowestExponent + kDigitBits * (kWords - 1);

  /// Adds one term. Throws ContractError, leaving the sum as it was, for a value that is not
  /// finite, negative, too large, or has bits below 2^kLowestExponent: find overflow with a flag of
  /// its own, not with the sum.
  void add(double value);

  /// Adds all of them, several times as fast as one by one. Throws ContractError as above, leaving
  /// the sum as it was.
  void add(std::span<const double> values);

  /// The digits, carries done: equal sums have equal words. Each is below 2^32 (the last may be
  /// more), so the words of up to 2^30 ranks can be added as int64 without overflow.
  std::span<const std::int64_t> words() const noexcept { return words_; }

  /// Adds another sum: kWords words of another ExactSum or the word-by-word total of up to 2^30 of
  /// them. Throws ContractError, leaving the sum as it was, for another length or a word outside
  /// [0, 2^62].
  void merge(std::span<const std::int64_t> words);

  /// The sum rounded once, to nearest, ties to even.
  double value() const noexcept;

 private:
  void put(double value);
  void carry() noexcept;

  std::array<std::int64_t, kWords> words_{};
};

}  // namespace zero
