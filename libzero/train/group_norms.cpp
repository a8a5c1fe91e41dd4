#include "libzero/train/group_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "libzero/kernels/block_norm.h"
#include "libzero/optim/exact_sum.h"

namespace zero {
namespace {

struct GroupSum {
  ExactSum squares;
  bool is_finite = true;

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

std::vector<double> group_norms(Optimizer& optimizer) {
  std::vector<GroupSum> sums(optimizer.param_groups().size());
  for (const ParameterSpec& spec : optimizer.layout().parameters()) {
    if (!spec.trainable || spec.alias_of >= 0) continue;
    const at::Tensor gradient = optimizer.gather(spec.name, StateKind::kGradient);
    sums[static_cast<std::size_t>(spec.group)].add(
        {gradient.const_data_ptr<float>(), static_cast<std::size_t>(gradient.numel())});
  }
  std::vector<double> norms;
  for (const GroupSum& sum : sums) {
    norms.push_back(sum.is_finite ? std::sqrt(sum.squares.value())
                                  : std::numeric_limits<double>::infinity());
  }
  return norms;
}

}  // namespace zero
