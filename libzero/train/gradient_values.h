#pragma once

#include <ATen/core/Tensor.h>

namespace zero {

/// The values of a parameter's gradient, which it must have; they share its memory. A sparse one is
/// coalesced first: several values of one index are one element of the gradient.
inline at::Tensor gradient_values(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.is_sparse()) return gradient;
  gradient = gradient.coalesce();
  return gradient._values();
}

}  // namespace zero
