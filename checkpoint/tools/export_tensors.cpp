#include "checkpoint/tools/export_tensors.h"

#include <algorithm>

#include "libzero/base/convert_floats.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20;

constexpr const char* kAverageState = "ema";

using Names = std::vector<std::string>;

Names states_of(const ParameterSpec& spec, ExportWeights weights) {
  if (!spec.trainable || weights == ExportWeights::kMaster) return {"master", "value"};
  return {kAverageState};
}

[[noreturn]] void refuse_without_weights(const ParameterSpec& spec, ExportWeights weights) {
  if (spec.trainable && weights == ExportWeights::kAverage)
    throw FormatError(
        "the checkpoint has no average of the weights (state 'ema', which training with "
        "Options().ema keeps), export the weights themselves: " +
        spec.name);
  throw FormatError("a parameter has neither 'master' nor 'value' in this checkpoint: " +
                    spec.name);
}

/// The state that holds a parameter's weights.
std::string weights_of(const Reader& reader, std::int32_t parameter, const ParameterSpec& spec,
                       ExportWeights weights) {
  const Names states = reader.states(parameter);
  for (const std::string& state : states_of(spec, weights)) {
    if (std::find(states.begin(), states.end(), state) == states.end()) continue;
    const DType stored = reader.dtype(parameter, state);
    if (stored == spec.dtype || (is_floating(stored) && is_floating(spec.dtype))) return state;
    throw FormatError(
        "a parameter's weights have a dtype that does not fit it, use another "
        "checkpoint: " +
        spec.name + ", " + std::string(name_of(stored)));
  }
  refuse_without_weights(spec, weights);
}

}  // namespace

ExportContent plan_export(const Reader& reader, const ExportOptions& options) {
  const std::optional<DType>& dtype = options.dtype;
  ZERO_REQUIRE(!dtype || is_floating(*dtype),
               "parameters are exported as float32, bfloat16 or float16: " +
                   std::string(name_of(dtype.value_or(DType::kFloat32))));
  ExportContent content;
  if (options.weights == ExportWeights::kAverage) content.weights = kAverageState;
  const std::vector<ParameterSpec>& parameters = reader.common().parameters;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const ParameterSpec& spec = parameters[row];
    if (spec.alias_of != -1) {
      content.aliases.emplace_back(spec.name,
                                   parameters[static_cast<std::size_t>(spec.alias_of)].name);
      continue;
    }
    ExportTensor tensor{spec.name, spec.shape, spec.dtype, static_cast<std::int32_t>(row), {}, 0};
    tensor.numel = spec.numel();
    if (tensor.numel > 0)
      tensor.state = weights_of(reader, tensor.parameter, spec, options.weights);
    if (dtype && is_floating(spec.dtype)) tensor.dtype = *dtype;
    content.bytes += tensor.bytes();
    content.tensors.push_back(std::move(tensor));
  }
  return content;
}

ExportStream::ExportStream(const Reader& reader, std::uint64_t total_bytes,
                           const Progress& progress)
    : reader_(reader), meter_(progress, total_bytes, "export") {
  meter_.advance(0);
}

void ExportStream::read(const ExportTensor& tensor,
                        const std::function<void(std::span<const std::byte>)>& sink) {
  if (tensor.numel == 0) return;
  const DType stored = reader_.dtype(tensor.parameter, tensor.state);
  const auto stored_width = static_cast<std::size_t>(size_of(stored));
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype));
  const auto step = static_cast<std::int64_t>(kChunk / stored_width);
  for (std::int64_t begin = 0; begin < tensor.numel; begin += step) {
    const std::int64_t end = std::min(tensor.numel, begin + step);
    const auto count = static_cast<std::size_t>(end - begin);
    stored_.resize(count * stored_width);
    reader_.read(tensor.parameter, tensor.state, begin, end, stored_);
    if (stored == tensor.dtype) {
      sink(stored_);
    } else {
      converted_.resize(count * width);
      convert_floats(float_type_of(stored), stored_, float_type_of(tensor.dtype), converted_);
      sink(converted_);
    }
    meter_.advance(count * width);
  }
}

}  // namespace zero::checkpoint
