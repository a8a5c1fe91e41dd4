#pragma once

/// The model's table as checkpoints hold it: parameters, then buffers.

#include <vector>

#include "libzero/optim/named_tensors.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

/// The row of a buffer: trainable false, group -1. Truth values are uint8; elements of a type that
/// DType lacks (float64, int32, ...) are their bytes, uint8 with one more dimension.
ParameterSpec buffer_row(const NamedTensor& buffer);

/// Rows of parameters, then of buffers.
std::vector<ParameterSpec> checkpoint_rows(const ParameterTable& table,
                                           const std::vector<NamedTensor>& buffers);

}  // namespace zero
