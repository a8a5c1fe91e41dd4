#pragma once

/// Clipping of gradients under LibTorch's own optimizers, by parameter group.

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <vector>

namespace zero {

/// What a clipping found and did. Norms are of the gradients before it.
struct Clipped {
  double norm = 0;                  ///< Of all gradients that were looked at.
  std::vector<double> group_norms;  ///< By group of the optimizer; 0 of those not looked at.
  double factor = 1;                ///< By which they were multiplied; exactly 1: left alone.
  bool is_finite = true;  ///< false: norm is not finite, and the gradients were left alone.
};

enum class NormKind {
  kL2,   ///< Square root of the sum of squares, added in float64.
  kMax,  ///< Largest magnitude.
};

/// Norms without clipping. All functions here want gradients that are not scaled
/// (GradScaler::unscale), look over parameters that have none, take dense and sparse gradients (a
/// sparse one is coalesced) of any floating dtype, and throw ContractError for a zero::Optimizer:
/// its gradients are sharded, and Options().clip_norm(), clip_value() and a ParameterGroup's
/// clip_norm do this for it.
Clipped gradient_norms(torch::optim::Optimizer& optimizer, NormKind kind = NormKind::kL2);

/// Multiplies all gradients by max_norm / norm where the norm over all groups is larger (Pascanu et
/// al. 2013, arXiv 1211.5063, algorithm 1). Unlike LibTorch's clip_grad_norm_ it adds no 1e-6 to
/// the norm, and does not spread a NaN. Throws ContractError unless max_norm is above 0 and finite.
Clipped clip_norm(torch::optim::Optimizer& optimizer, double max_norm,
                  NormKind kind = NormKind::kL2);

/// The same over one group alone. Throws ContractError if there is no such group.
Clipped clip_group_norm(torch::optim::Optimizer& optimizer, std::size_t group, double max_norm,
                        NormKind kind = NormKind::kL2);

/// Brings every element of the gradients into [-max_value, max_value]; NaN stays. The norms are
/// those before; `factor` is 1. Throws ContractError unless max_value is above 0 and finite.
Clipped clip_value(torch::optim::Optimizer& optimizer, double max_value);

/// The same over one group alone. Throws ContractError if there is no such group.
Clipped clip_group_value(torch::optim::Optimizer& optimizer, std::size_t group, double max_value);

}  // namespace zero
