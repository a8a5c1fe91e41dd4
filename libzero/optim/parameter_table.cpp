#include "libzero/optim/parameter_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

std::int32_t group_of(const NamedTensor& parameter, const std::vector<ParameterGroup>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].predicate(parameter.name, parameter.tensor))
      return static_cast<std::int32_t>(i + 1);
  }
  return 0;
}

void require_usable(const NamedTensor& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  require_dense(parameter, "parameter", tensor.defined() ? tensor.device() : at::kCPU);
  ZERO_REQUIRE(
      !tensor.requires_grad() || tensor.is_leaf(),
      "model: trainable parameter is no leaf; register the leaf tensor itself: " + parameter.name);
  ZERO_REQUIRE(!tensor.requires_grad() || has_distinct_elements(tensor),
               "model: trainable parameter overlaps itself (an expanded view?), so that one step "
               "would update an element "
               "twice; give it memory of its own with clone(): " +
                   parameter.name);
}

std::string what_is(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << " " << tensor.sizes() << " on " << tensor.device();
  return text.str();
}

struct ByteRange {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::int32_t parameter;
};

ByteRange byte_range(const at::Tensor& tensor, std::int32_t parameter) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  const auto item = static_cast<std::uintptr_t>(tensor.element_size());
  return {begin, begin + (static_cast<std::uintptr_t>(last) + 1) * item, parameter};
}

void require_disjoint(const ParameterTable& table) {
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const at::Tensor& tensor = table.tensors[i];
    if (table.specs[i].alias_of >= 0 || tensor.numel() == 0) continue;
    ranges.push_back(byte_range(tensor, static_cast<std::int32_t>(i)));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i - 1].end) continue;
    const auto first =
        static_cast<std::size_t>(std::min(ranges[i - 1].parameter, ranges[i].parameter));
    const auto second =
        static_cast<std::size_t>(std::max(ranges[i - 1].parameter, ranges[i].parameter));
    throw ContractError(
        "model: two parameters share memory without being the same tensor, so that one step would "
        "update it twice; "
        "register one tensor under both names, or clone: " +
        table.specs[first].name + " and " + table.specs[second].name);
  }
}

}  // namespace

void require_dense(const NamedTensor& item, const std::string& kind, c10::Device device) {
  const at::Tensor& tensor = item.tensor;
  ZERO_REQUIRE(tensor.defined(),
               "model: " + kind +
                   " is undefined; give it a value before building the optimizer: " + item.name);
  ZERO_REQUIRE(
      tensor.layout() == at::kStrided,
      "model: " + kind + " is not dense; libzero holds strided tensors only: " + item.name);
  ZERO_REQUIRE(tensor.is_cpu() || tensor.device() == device,
               "model: " + kind + " lies on another device than the parameters; move the whole " +
                   "model with to(device): " + item.name + " is on " + tensor.device().str() +
                   ", parameters on " + device.str());
}

bool has_distinct_elements(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, size
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::sort(dimensions.begin(), dimensions.end());
  std::int64_t last = 0;  // furthest element that the smaller strides reach
  for (const auto& [stride, size] : dimensions) {
    if (stride <= last) return false;
    last += (size - 1) * stride;
  }
  return true;
}

std::vector<at::Tensor> tensors_of_group(const ParameterTable& table, std::int32_t group) {
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const ParameterSpec& spec = table.specs[i];
    if (spec.trainable && spec.alias_of < 0 && spec.group == group)
      tensors.push_back(table.tensors[i]);
  }
  return tensors;
}

std::string first_reshaped(const ParameterTable& table) {
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const ParameterSpec& spec = table.specs[i];
    const at::Tensor& tensor = table.tensors[i];
    const bool is_same = tensor.sizes() == at::IntArrayRef(spec.shape) &&
                         tensor.scalar_type() == scalar_type_of(spec.dtype) &&
                         tensor.device() == table.device;
    if (!is_same) {
      return "optimizer: a parameter changed its shape, dtype or device after the optimizer was "
             "built; change the model first and build the optimizer then, or tell it with "
             "Optimizer::rebuild(): parameter " +
             describe(spec) + " is now " + what_is(tensor);
    }
  }
  return "";
}

std::string first_refrozen(const ParameterTable& table) {
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    if (table.tensors[i].requires_grad() == table.specs[i].trainable) continue;
    return "optimizer: a parameter's requires_grad changed after the optimizer was built; set it "
           "back, or tell the optimizer with Optimizer::rebuild(): parameter " +
           table.specs[i].name + " is now " + (table.specs[i].trainable ? "frozen" : "trainable");
  }
  return "";
}

std::optional<DType> known_dtype(c10::ScalarType type) noexcept {
  switch (type) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kHalf:
      return DType::kFloat16;
    case at::kLong:
      return DType::kInt64;
    case at::kByte:
      return DType::kUInt8;
    default:
      return std::nullopt;
  }
}

DType dtype_of(const at::Tensor& tensor, const std::string& name) {
  if (const auto dtype = known_dtype(tensor.scalar_type())) return *dtype;
  throw ContractError(
      std::string("model: parameter has a dtype that libzero does not know (it trains float32, "
                  "bfloat16 and float16); convert it: ") +
      name + " is " + c10::toString(tensor.scalar_type()));
}

c10::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kInt64:
      return at::kLong;
    case DType::kUInt8:
      return at::kByte;
  }
  throw ContractError("dtype: not a known element type");
}

ParameterTable make_parameter_table(const std::vector<NamedTensor>& parameters,
                                    const std::vector<ParameterGroup>& groups) {
  ParameterTable table;
  std::map<const c10::TensorImpl*, std::int32_t> owners;  // looked up only, never iterated
  for (const NamedTensor& parameter : parameters) {
    require_usable(parameter);
    if (table.specs.empty()) table.device = parameter.tensor.device();
    ZERO_REQUIRE(parameter.tensor.device() == table.device,
                 "model: parameters lie on different devices; move the whole model with "
                 "to(device): " +
                     table.specs.front().name + " is on " + table.device.str() + ", " +
                     parameter.name + " on " + parameter.tensor.device().str());
    const auto index = static_cast<std::int32_t>(table.specs.size());
    const auto [owner, is_new] = owners.emplace(parameter.tensor.unsafeGetTensorImpl(), index);
    ParameterSpec spec;
    spec.name = parameter.name;
    spec.shape = parameter.tensor.sizes().vec();
    spec.dtype = dtype_of(parameter.tensor, parameter.name);
    spec.trainable = parameter.tensor.requires_grad();
    spec.alias_of = is_new ? -1 : owner->second;
    spec.group = is_new ? group_of(parameter, groups)
                        : table.specs[static_cast<std::size_t>(owner->second)].group;
    table.classes.push_back(spec.group);
    table.specs.push_back(std::move(spec));
    table.tensors.push_back(parameter.tensor);
  }
  require_disjoint(table);
  return table;
}

}  // namespace zero
