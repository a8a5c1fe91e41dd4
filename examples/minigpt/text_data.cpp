#include "examples/minigpt/text_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "libzero/base/error.h"

namespace minigpt {
namespace {

/// SplitMix64: the same numbers on every machine, which std::shuffle does not promise.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Windows::Windows(std::string text, std::int64_t context)
    : text_(std::move(text)),
      context_(context),
      count_(std::max<std::int64_t>(0, (static_cast<std::int64_t>(text_.size()) - 1) / context)) {}

std::vector<std::int64_t> Windows::bytes(std::span<const std::int64_t> indices) const {
  std::vector<std::int64_t> result;
  result.reserve(indices.size() * static_cast<std::size_t>(context_ + 1));
  for (const std::int64_t index : indices) {
    for (std::int64_t i = index * context_; i <= (index + 1) * context_; ++i) {
      result.push_back(static_cast<unsigned char>(text_[static_cast<std::size_t>(i)]));
    }
  }
  return result;
}

TextData read_text(const std::string& path, std::int64_t context) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw zero::ContractError("--data cannot be read; check the path: " + path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw std::runtime_error("--data: reading failed: " + path);
  const auto bytes = static_cast<std::int64_t>(text.size());
  const std::int64_t needed = 20 * (context + 1);  // two windows in the held-out tenth
  if (bytes < needed) {
    throw zero::ContractError("--data is too short; it needs " + std::to_string(needed) +
                              " bytes for --context " + std::to_string(context) + ": " + path +
                              " has " + std::to_string(bytes));
  }
  const std::size_t training = text.size() * 9 / 10;
  return {Windows(text.substr(0, training), context), Windows(text.substr(training), context)};
}

SampleOrder::SampleOrder(std::int64_t count, std::uint64_t seed)
    : seed_(seed), permutation_(static_cast<std::size_t>(count)) {}

std::vector<std::int64_t> SampleOrder::at(std::int64_t begin, std::int64_t length) {
  const auto count = static_cast<std::int64_t>(permutation_.size());
  std::vector<std::int64_t> samples;
  for (std::int64_t position = begin; position < begin + length; ++position) {
    if (position / count != epoch_) shuffle(position / count);
    samples.push_back(permutation_[static_cast<std::size_t>(position % count)]);
  }
  return samples;
}

void SampleOrder::shuffle(std::int64_t epoch) {
  epoch_ = epoch;
  std::iota(permutation_.begin(), permutation_.end(), 0);
  SplitMix64 random(SplitMix64(seed_).next() + static_cast<std::uint64_t>(epoch));
  for (std::size_t i = permutation_.size(); i > 1; --i) {  // Fisher-Yates
    std::swap(permutation_[i - 1], permutation_[random.next() % i]);
  }
}

}  // namespace minigpt
