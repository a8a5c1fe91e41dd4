#pragma once

/// The model as the optimizer sees it: tensors beside the rows that describe them.

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/options.h"

namespace zero {

struct ParameterTable {
  std::vector<ParameterSpec> specs;
  std::vector<at::Tensor>
      tensors;  ///< tensors[i] belongs to specs[i]; an alias holds its owner's tensor.
  /// Which constants row i is stepped with: those of its group, unless UpdateClasses says
  /// otherwise.
  std::vector<std::int32_t> classes;
  c10::Device device = at::kCPU;  ///< Of all of them.
};

/// Describes parameters: finds tied ones by identity and assigns groups. Throws ContractError
/// naming the parameters for dtypes that cannot be trained, tensors that are undefined, not dense
/// or not all on one device, different tensors whose storage overlaps, tensors that overlap
/// themselves (a frozen one may be expanded), and trainable tensors that are no leaves.
ParameterTable make_parameter_table(const std::vector<NamedTensor>& parameters,
                                    const std::vector<ParameterGroup>& groups);

/// The trainable tensors of one group, each once.
std::vector<at::Tensor> tensors_of_group(const ParameterTable& table, std::int32_t group);

/// Empty, or what is wrong: the first parameter whose shape, dtype or device is no longer what its
/// row says. Reading or writing it by its row would go beyond its memory.
std::string first_reshaped(const ParameterTable& table);

/// Empty, or what is wrong: the first parameter that was frozen or thawed after the table was made.
std::string first_refrozen(const ParameterTable& table);

/// Throws ContractError naming `item` unless it is a dense tensor in host memory or on `device`.
void require_dense(const NamedTensor& item, const std::string& kind, c10::Device device = at::kCPU);

/// True unless two indices of the tensor may lead to one element.
bool has_distinct_elements(const at::Tensor& tensor);

/// Nothing for a type that libzero does not know.
std::optional<DType> known_dtype(c10::ScalarType type) noexcept;

/// The DType of a tensor. Throws ContractError naming `name` for types that libzero does not know.
DType dtype_of(const at::Tensor& tensor, const std::string& name);
c10::ScalarType scalar_type_of(DType dtype);

}  // namespace zero
