#include "libzero/optim/step_vote.h"

#include <bit>
#include <limits>
#include <span>

#include "libzero/base/fnv.h"

namespace zero {
namespace {

constexpr std::size_t kFlagsAt = ExactSum::kWords;
constexpr std::size_t kCallsAt = kFlagsAt + 8;
/// In the place of a sum's first word, which is never negative.
constexpr std::int64_t kNotFinite = -1;

std::uint64_t pattern_of(std::span<const BackwardCall> calls) {
  Fnv1a hash;
  for (const BackwardCall& call : calls) hash.add(std::int64_t{call.reduced ? 1 : 0});
  return hash.value();
}

void encode(const StepVote& vote, std::vector<std::int64_t>& words) {
  words.assign(vote.sum_of_squares.words().begin(), vote.sum_of_squares.words().end());
  words.push_back(vote.finite ? 1 : 0);
  words.push_back(vote.nonfinite_parameter);
  words.push_back(vote.unused_parameter);
  words.push_back(static_cast<std::int64_t>(vote.soundness));
  words.push_back(std::bit_cast<std::int64_t>(vote.options));
  words.push_back(vote.stop ? 1 : 0);
  words.push_back(std::bit_cast<std::int64_t>(pattern_of(vote.calls)));
  words.push_back(vote.collective_time);
  for (const BackwardCall& call : vote.calls) {
    words.push_back(std::bit_cast<std::int64_t>(call.loss));
    words.push_back(call.weight);
  }
  for (const GroupSquares& group : vote.groups) {
    const std::size_t at = words.size();
    words.insert(words.end(), group.sum.words().begin(), group.sum.words().end());
    if (!group.finite) words[at] = kNotFinite;
  }
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
                std::size_t calls, std::size_t ranks) {
  double sum = 0;
  for (std::size_t call = kCallsAt; call < kCallsAt + 2 * calls; call += 2) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t weight = all[rank * stride + call + 1];
      sum += std::bit_cast<double>(all[rank * stride + call]) * static_cast<double>(weight);
      tally.weight += weight;
    }
  }
  if (tally.weight > 0) tally.loss = sum / static_cast<double>(tally.weight);
}

}  // namespace

std::int64_t VoteBox::words(const StepVote& vote) noexcept {
  return static_cast<std::int64_t>(kCallsAt + 2 * vote.calls.size() +
                                   ExactSum::kWords * vote.groups.size());
}

void VoteBox::add_groups(std::size_t groups, std::size_t stride) {
  group_squares_.clear();
  for (std::size_t group = groups; group > 0; --group) {  // they end the votes
    ExactSum total;
    bool is_finite = true;
    for (std::size_t end = stride; end <= all_.size(); end += stride) {
      const std::span<const std::int64_t> words(all_.data() + end - group * ExactSum::kWords,
                                                ExactSum::kWords);
      is_finite = is_finite && words[0] != kNotFinite;
      if (is_finite) total.merge(words);
    }
    group_squares_.push_back(is_finite ? total.value() : std::numeric_limits<double>::infinity());
  }
}

StepTally VoteBox::gather(const StepVote& vote, std::string_view label) {
  encode(vote, mine_);
  const std::size_t stride = mine_.size();
  const auto ranks = static_cast<std::size_t>(comm_.size());
  all_.resize(stride * ranks);
  comm_
      .all_gather({mine_.data(), static_cast<std::int64_t>(stride), DType::kInt64},
                  {all_.data(), static_cast<std::int64_t>(all_.size()), DType::kInt64}, label)
      ->wait();
  StepTally tally;
  ExactSum total;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::span<const std::int64_t> words(all_.data() + rank * stride, stride);
    total.merge(words.first(ExactSum::kWords));
    add_flags(tally, words, static_cast<int>(rank));
    times_[rank] = words[kFlagsAt + 7];
    if (words[kFlagsAt + 4] != all_[kFlagsAt + 4] && tally.odd_rank < 0)
      tally.odd_rank = static_cast<int>(rank);
    if (words[kFlagsAt + 6] != all_[kFlagsAt + 6] && tally.odd_pattern_rank < 0)
      tally.odd_pattern_rank = static_cast<int>(rank);
  }
  tally.sum_of_squares = total.value();
  add_losses(tally, all_, stride, vote.calls.size(), ranks);
  add_groups(vote.groups.size(), stride);
  return tally;
}

}  // namespace zero
