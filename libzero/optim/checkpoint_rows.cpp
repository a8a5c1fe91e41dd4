#include "libzero/optim/checkpoint_rows.h"

namespace zero {

ParameterSpec buffer_row(const NamedTensor& buffer) {
  const at::Tensor& tensor = buffer.tensor;
  ParameterSpec row;
  row.name = buffer.name;
  row.shape = tensor.sizes().vec();
  row.group = -1;
  row.trainable = false;
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kBFloat16:
    case at::kHalf:
    case at::kLong:
    case at::kByte:
      row.dtype = dtype_of(tensor, buffer.name);
      break;
    case at::kBool:
      row.dtype = DType::kUInt8;
      break;
    default:
      row.dtype = DType::kUInt8;
      row.shape.push_back(static_cast<std::int64_t>(tensor.element_size()));
  }
  return row;
}

std::vector<ParameterSpec> checkpoint_rows(const ParameterTable& table,
                                           const std::vector<NamedTensor>& buffers) {
  std::vector<ParameterSpec> rows = table.specs;
  for (const NamedTensor& buffer : buffers) rows.push_back(buffer_row(buffer));
  return rows;
}

}  // namespace zero
