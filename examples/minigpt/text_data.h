#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace minigpt {

/// A text cut into windows of context + 1 bytes, one every `context` bytes.
class Windows {
 public:
  Windows(std::string text, std::int64_t context);

  std::int64_t count() const noexcept { return count_; }

  /// The bytes of windows `indices`, as int64, one window after the other: indices.size() *
  /// (context + 1) values.
  std::vector<std::int64_t> bytes(std::span<const std::int64_t> indices) const;

 private:
  std::string text_;
  std::int64_t context_;
  std::int64_t count_;
};

struct TextData {
  Windows training;    ///< The first 90 % of the file.
  Windows validation;  ///< The rest.
};

/// Throws std::runtime_error naming the file if it cannot be read.
TextData read_text(const std::string& path, std::int64_t context);

/// The order of samples: position p of the run is a sample of epoch p / count, each epoch a
/// permutation of its own that depends on (seed, epoch) alone, never on rank or world size.
class SampleOrder {
 public:
  SampleOrder(std::int64_t count, std::uint64_t seed);

  /// Samples at positions [begin, begin + length) of the run.
  std::vector<std::int64_t> at(std::int64_t begin, std::int64_t length);

 private:
  void shuffle(std::int64_t epoch);

  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> permutation_;
};

}  // namespace minigpt
