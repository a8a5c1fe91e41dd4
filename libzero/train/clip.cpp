#include "libzero/train/clip.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/optimizer.h"
#include "libzero/train/gradient_values.h"

namespace zero {
namespace {

void require_positive(double value, const char* name) {
  ZERO_REQUIRE(std::isfinite(value) && value > 0,
               std::string("clip: ") + name + " must be finite and above 0: " + number_text(value));
}

/// The gradients by group; none of the groups that are not asked for.
class Gradients {
 public:
  Gradients(torch::optim::Optimizer& optimizer, std::optional<std::size_t> only) {
    ZERO_REQUIRE(dynamic_cast<Optimizer*>(&optimizer) == nullptr,
                 "clip: a zero::Optimizer's gradients are sharded over ranks; set "
                 "Options().clip_norm() instead");
    auto& groups = optimizer.param_groups();
    ZERO_REQUIRE(!only || *only < groups.size(),
                 "clip: there is no such group: " + std::to_string(only.value_or(0)) + " of " +
                     std::to_string(groups.size()));
    by_group_.resize(groups.size());
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if (only && *only != group) continue;
      for (at::Tensor& parameter : groups[group].params()) {
        if (parameter.grad().defined()) by_group_[group].push_back(gradient_values(parameter));
      }
    }
  }

  Clipped norms(NormKind kind) const {
    Clipped result;
    double total = 0;
    for (const auto& group : by_group_) {
      double sum = 0;
      for (const at::Tensor& gradient : group) add(sum, norm_of(gradient, kind), kind);
      result.group_norms.push_back(kind == NormKind::kL2 ? std::sqrt(sum) : sum);
      add(total, result.group_norms.back(), kind);
    }
    result.norm = kind == NormKind::kL2 ? std::sqrt(total) : total;
    result.is_finite = std::isfinite(result.norm);
    return result;
  }

  template <class Function>
  void for_each(Function function) const {
    for (const auto& group : by_group_) {
      for (const at::Tensor& gradient : group) function(gradient);
    }
  }

 private:
  static double norm_of(const at::Tensor& gradient, NormKind kind) {
    if (gradient.numel() == 0) return 0;
    const double order = kind == NormKind::kL2 ? 2 : std::numeric_limits<double>::infinity();
    return at::linalg_vector_norm(gradient, order, at::OptionalIntArrayRef(), false, at::kDouble)
        .item<double>();
  }

  /// NaN, unlike with std::max, stays.
  static void add(double& sum, double norm, NormKind kind) {
    if (kind == NormKind::kL2)
      sum += norm * norm;
    else if (!(norm <= sum) && !std::isnan(sum))
      sum = norm;
  }

  std::vector<std::vector<at::Tensor>> by_group_;
};

Clipped clip_norm_of(const Gradients& gradients, double max_norm, NormKind kind) {
  require_positive(max_norm, "max_norm");
  Clipped result = gradients.norms(kind);
  if (!result.is_finite || result.norm <= max_norm) return result;
  result.factor = max_norm / result.norm;
  gradients.for_each([&](const at::Tensor& gradient) { gradient.mul_(result.factor); });
  return result;
}

Clipped clip_value_of(const Gradients& gradients, double max_value) {
  require_positive(max_value, "max_value");
  const Clipped result = gradients.norms(NormKind::kL2);
  gradients.for_each([&](const at::Tensor& gradient) { gradient.clamp_(-max_value, max_value); });
  return result;
}

}  // namespace

Clipped gradient_norms(torch::optim::Optimizer& optimizer, NormKind kind) {
  return Gradients(optimizer, std::nullopt).norms(kind);
}

Clipped clip_norm(torch::optim::Optimizer& optimizer, double max_norm, NormKind kind) {
  return clip_norm_of(Gradients(optimizer, std::nullopt), max_norm, kind);
}

Clipped clip_group_norm(torch::optim::Optimizer& optimizer, std::size_t group, double max_norm,
                        NormKind kind) {
  return clip_norm_of(Gradients(optimizer, group), max_norm, kind);
}

Clipped clip_value(torch::optim::Optimizer& optimizer, double max_value) {
  return clip_value_of(Gradients(optimizer, std::nullopt), max_value);
}

Clipped clip_group_value(torch::optim::Optimizer& optimizer, std::size_t group, double max_value) {
  return clip_value_of(Gradients(optimizer, group), max_value);
}

}  // namespace zero
