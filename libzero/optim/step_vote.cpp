#include "libzero/optim/step_vote.h"

#include <bit>
#include <span>

namespace zero {
namespace {

constexpr std::size_t kFlagsAt = ExactSum::kWords;
constexpr std::size_t kCallsAt = kFlagsAt + 6;

std::vector<std::int64_t> encode(const StepVote& vote) {
  std::vector<std::int64_t> words(vote.sum_of_squares.words().begin(),
                                  vote.sum_of_squares.words().end());
  words.push_back(vote.finite ? 1 : 0);
  words.push_back(vote.nonfinite_parameter);
  words.push_back(vote.unused_parameter);
  words.push_back(static_cast<std::int64_t>(vote.soundness));
  words.push_back(std::bit_cast<std::int64_t>(vote.options));
  words.push_back(vote.stop ? 1 : 0);
  for (const BackwardCall& call : vote.calls) {
    words.push_back(std::bit_cast<std::int64_t>(call.loss));
    words.push_back(call.weight);
  }
  return words;
}

/// The smaller of two parameter indices, where -1 stands for none.
std::int32_t first_of(std::int32_t a, std::int32_t b) {
  return a < 0 ? b : (b < 0 || a < b ? a : b);
}

void add_flags(StepTally& tally, std::span<const std::int64_t> words, int rank) {
  if (words[kFlagsAt] == 0) tally.finite = false;
  if (words[kFlagsAt + 5] != 0) tally.stop = true;
  tally.nonfinite_parameter =
      first_of(tally.nonfinite_parameter, static_cast<std::int32_t>(words[kFlagsAt + 1]));
  const auto unused = static_cast<std::int32_t>(words[kFlagsAt + 2]);
  if (unused >= 0 && tally.unused_rank < 0) {
    tally.unused_parameter = unused;
    tally.unused_rank = rank;
  }
  if (words[kFlagsAt + 3] != 0 && tally.failed_rank < 0) {
    tally.failed_rank = rank;
    tally.failure = static_cast<Soundness>(words[kFlagsAt + 3]);
  }
}

void add_losses(StepTally& tally, const std::vector<std::int64_t>& all, std::size_t stride,
                std::size_t ranks) {
  double sum = 0;
  for (std::size_t call = kCallsAt; call + 1 < stride; call += 2) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t weight = all[rank * stride + call + 1];
      sum += std::bit_cast<double>(all[rank * stride + call]) * static_cast<double>(weight);
      tally.weight += weight;
    }
  }
  if (tally.weight > 0) tally.loss = sum / static_cast<double>(tally.weight);
}

}  // namespace

StepTally gather_votes(Collective& comm, const StepVote& vote, std::string_view label) {
  const std::vector<std::int64_t> mine = encode(vote);
  const std::size_t stride = mine.size();
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int64_t> all(stride * ranks);
  comm.all_gather({mine.data(), static_cast<std::int64_t>(stride), DType::kInt64},
                  {all.data(), static_cast<std::int64_t>(all.size()), DType::kInt64}, label)
      ->wait();
  StepTally tally;
  ExactSum total;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::span<const std::int64_t> words(all.data() + rank * stride, stride);
    total.merge(words.first(ExactSum::kWords));
    add_flags(tally, words, static_cast<int>(rank));
    if (words[kFlagsAt + 4] != all[kFlagsAt + 4] && tally.odd_rank < 0)
      tally.odd_rank = static_cast<int>(rank);
  }
  tally.sum_of_squares = total.value();
  add_losses(tally, all, stride, ranks);
  return tally;
}

}  // namespace zero
