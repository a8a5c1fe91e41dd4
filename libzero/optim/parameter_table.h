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
};

/// Describes parameters: finds tied ones by identity and assigns groups. Throws ContractError
/// naming the parameters for dtypes that cannot be trained, tensors that are undefined, not dense
/// or not on the CPU, different tensors whose storage overlaps, tensors that overlap themselves (a
/// frozen one may be expanded), and trainable tensors that are no leaves.
ParameterTable make_parameter_table(const std::vector<NamedTensor>& parameters,
                                    const std::vector<ParameterGroup>& groups);

/// The trainable tensors of one group, each once.
std::vector<at::Tensor> tensors_of_group(const ParameterTable& table, std::int32_t group);

/// Whether the row's tensor still has the row's shape, dtype and device.
bool is_as_described(const ParameterSpec& row, const at::Tensor& tensor);

/// Empty, or what is wrong: the first parameter whose shape, dtype or device is no longer what its
/// row says. Reading or writing it by its row would go beyond its memory.
std::string first_reshaped(const ParameterTable& table);

/// Empty, or what is wrong: the first parameter that was frozen or thawed after the table was made.
std::string first_refrozen(const ParameterTable& table);

/// Throws ContractError naming `item` unless it is a dense tensor in host memory.
void require_dense_on_host(const NamedTensor& item, const std::string& kind);

/// True unless two indices of the tensor may lead to one element.
bool has_distinct_elements(const at::Tensor& tensor);

/// Nothing for a type that libzero does not know.
std::optional<DType> known_dtype(c10::ScalarType type) noexcept;

/// The DType of a tensor. Throws ContractError naming `name` for types that libzero does not know.
DType dtype_of(const at::Tensor& tensor, const std::string& name);
c10::ScalarType scalar_type_of(DType dtype);

}  // namespace zero
