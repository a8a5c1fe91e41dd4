#include "libzero/train/permutation.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/mix64.h"

namespace zero {

Permutation::Permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch)
    : count_(static_cast<std::uint64_t>(count)) {
  ZERO_REQUIRE(count >= 1, "Permutation: count must be at least 1: " + std::to_string(count));
  ZERO_REQUIRE(epoch >= 0, "Permutation: epoch must not be negative: " + std::to_string(epoch));
  const std::uint64_t key =
      mix64(mix64(seed + kGoldenGamma) + static_cast<std::uint64_t>(epoch) + kGoldenGamma);
  std::uint64_t counter = key;
  for (Round& round : rounds_) {
    round.turn = mix64(counter += kGoldenGamma) % count_;
    round.key = mix64(counter += kGoldenGamma);
  }
}

std::int64_t Permutation::at(std::int64_t index) const {
  auto x = static_cast<std::uint64_t>(index);
  ZERO_REQUIRE(index >= 0 && x < count_,
               "Permutation: index must lie in [0, count): " + std::to_string(index) + ", count " +
                   std::to_string(count_));
  for (const Round& round : rounds_) {
    const std::uint64_t partner = round.turn >= x ? round.turn - x : round.turn + (count_ - x);
    if ((mix64(round.key + std::max(x, partner)) & 1u) != 0) x = partner;
  }
  return static_cast<std::int64_t>(x);
}

}  // namespace zero
