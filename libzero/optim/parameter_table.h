#pragma once

/// The model as the optimizer sees it: tensors beside the rows that describe them.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/options.h"

namespace zero {

struct ParameterTable {
  std::vector<ParameterSpec> specs;
  std::vector<at::Tensor> tensors;  ///< tensors[i] belongs to specs[i]; an alias holds its owner's tensor.
};

/// Describes parameters: finds tied ones by identity and assigns groups. Throws ContractError naming the parameters for
/// dtypes that cannot be trained, tensors that are undefined, not dense or not on the CPU, different tensors whose
/// storage overlaps, and trainable tensors that are no leaves.
ParameterTable make_parameter_table(const std::vector<NamedTensor>& parameters, const std::vector<ParameterGroup>& groups);

/// The DType of a tensor. Throws ContractError naming `name` for types that libzero does not know.
DType dtype_of(const at::Tensor& tensor, const std::string& name);
c10::ScalarType scalar_type_of(DType dtype);

}  // namespace zero
