#include "libzero/train/group_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libzero/kernels/block_norm.h"
#include "libzero/optim/exact_sum.h"

namespace zero {
namespace {

struct GroupSum {
  ExactSum squares;
  bool is_finite = true;

  /// A run that begins at a multiple of kNormBlock elements of its parameter.
  void add(std::span<const float> values) {
    for (std::size_t at = 0; at < values.size(); at += kNormBlock) {
      const auto block = values.subspan(at, std::min<std::size_t>(kNormBlock, values.size() - at));
      const double sum =
          block_sum_of_squares(block.data(), static_cast<std::int64_t>(block.size()));
      if (std::isfinite(sum))
        squares.add(sum);
      else
        is_finite = false;
    }
  }
};

}  // namespace

std::vector<double> group_norms(Optimizer& optimizer, Collective& comm) {
  std::vector<GroupSum> mine(optimizer.param_groups().size());
  const auto& parameters = optimizer.layout().parameters();
  optimizer.for_each_shard(StateKind::kGradient, [&](const ShardView& view) {
    const std::int32_t group = parameters[static_cast<std::size_t>(view.parameter)].group;
    mine[static_cast<std::size_t>(group)].add(view.values);
  });

  constexpr std::size_t kEach = ExactSum::kWords + 1;
  std::vector<std::int64_t> words;
  for (const GroupSum& sum : mine) {
    words.insert(words.end(), sum.squares.words().begin(), sum.squares.words().end());
    words.push_back(sum.is_finite ? 0 : 1);
  }
  comm.all_reduce({words.data(), static_cast<std::int64_t>(words.size()), DType::kInt64},
                  ReduceOp::kSum, "norms of parameter groups")
      ->wait();

  std::vector<double> norms;
  for (std::size_t at = 0; at < words.size(); at += kEach) {
    ExactSum total;
    total.merge(std::span(words).subspan(at, ExactSum::kWords));
    norms.push_back(words[at + ExactSum::kWords] == 0 ? std::sqrt(total.value())
                                                      : std::numeric_limits<double>::infinity());
  }
  return norms;
}

}  // namespace zero
