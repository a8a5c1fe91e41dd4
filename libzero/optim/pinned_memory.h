#pragma once

/// Host memory that an accelerator copies from and to by itself.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace zero {

/// A pinned tensor without values. Throws Error, saying the bytes and `what` they are for, where
/// the host or its driver has none to give.
at::Tensor pinned_tensor(at::IntArrayRef sizes, at::ScalarType dtype, std::string_view what);

/// Lets go of memory that a hanging device may still read or write, without ever freeing it. Any
/// thread.
void keep_for_good(std::vector<at::Tensor> memory) noexcept;

}  // namespace zero
