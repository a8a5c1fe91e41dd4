#include "checkpoint/common_file.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

class Encoder {
 public:
  explicit Encoder(CommonContent& out) : out_(out) {}

  void table(const std::string& name, ElementType type, std::vector<std::int64_t> shape,
             std::vector<std::byte> bytes) {
    out_.storage.push_back(std::move(bytes));
    out_.content.datasets.push_back(
        {{name, type, std::move(shape)}, {std::span<const std::byte>(out_.storage.back())}, false});
  }
  template <class Value>
  void values(const std::string& name, ElementType type, const std::vector<Value>& values,
              std::vector<std::int64_t> shape = {}) {
    if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
    const auto bytes = std::as_bytes(std::span(values));
    table(name, type, std::move(shape), {bytes.begin(), bytes.end()});
  }
  void int64s(const std::string& name, const std::vector<std::int64_t>& numbers,
              std::vector<std::int64_t> shape = {}) {
    values(name, ElementType::of(DType::kInt64), numbers, std::move(shape));
  }
  void blobs(const std::string& folder, const Blobs& blobs) {
    for (const auto& [key, blob] : blobs) {
      out_.content.datasets.push_back(
          {{folder + key, ElementType::of(DType::kUInt8), {static_cast<std::int64_t>(blob.size())}},
           {std::span<const std::byte>(blob)},
           false});
    }
  }

 private:
  CommonContent& out_;
};

void encode_names(Encoder& out, const std::vector<ParameterSpec>& parameters) {
  std::size_t width = 1;
  for (const ParameterSpec& spec : parameters) width = std::max(width, spec.name.size());
  std::vector<std::byte> bytes(width * parameters.size());
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const std::string& name = parameters[row].name;
    std::memcpy(bytes.data() + row * width, name.data(), name.size());
  }
  out.table("/parameters/name", ElementType::string(static_cast<std::int64_t>(width)),
            {static_cast<std::int64_t>(parameters.size())}, std::move(bytes));
}

void encode_parameters(Encoder& out, const CommonState& state) {
  std::vector<std::int64_t> shapes, groups, aliases;
  std::vector<std::uint8_t> dtypes, trainable;
  for (const ParameterSpec& spec : state.parameters) {
    for (std::size_t i = 0; i < kMaxDimensions; ++i) {
      shapes.push_back(i < spec.shape.size() ? spec.shape[i] : -1);
    }
    dtypes.push_back(static_cast<std::uint8_t>(spec.dtype));
    trainable.push_back(spec.trainable ? 1 : 0);
    groups.push_back(spec.group);
    aliases.push_back(spec.alias_of);
  }
  const ElementType uint8 = ElementType::of(DType::kUInt8);
  const auto count = static_cast<std::int64_t>(state.parameters.size());
  encode_names(out, state.parameters);
  out.int64s("/parameters/shape", shapes, {count, static_cast<std::int64_t>(kMaxDimensions)});
  out.values("/parameters/dtype", uint8, dtypes);
  out.int64s("/parameters/group", groups);
  out.values("/parameters/trainable", uint8, trainable);
  out.int64s("/parameters/alias_of", aliases);
  if (!state.applied_steps.empty()) out.int64s("/parameters/applied_steps", state.applied_steps);
}

void encode_groups(Encoder& out, const std::vector<GroupOptions>& groups) {
  if (groups.empty()) return;
  for (const auto& [option, first] : groups[0]) {
    std::vector<double> values;
    for (const GroupOptions& group : groups) values.push_back(group.at(option));
    out.values("/groups/" + option, ElementType::float64(), values);
  }
}

std::string rank_folder(int rank) {
  return "/blobs/rank/" + five_digits(rank) + "/";
}

}  // namespace

std::vector<hdf5::AttributeSpec> root_attributes(std::int64_t step, const std::string& run_id,
                                                 int world_size, int rank) {
  return {{"format", std::string(rank < 0 ? "libzero-common" : "libzero-shard")},
          {"version_major", std::int64_t{kFormatMajor}},
          {"version_minor", std::int64_t{kFormatMinor}},
          {"run_id", run_id},
          {"step", step},
          {"world_size", std::int64_t{world_size}},
          {"rank", std::int64_t{rank}}};
}

CommonContent encode_common(const CommonState& state, const std::vector<Blobs>& rank_blobs) {
  CommonContent result;
  result.content.name = std::string(kCommonName);
  result.content.attributes =
      root_attributes(state.step, state.run_id, static_cast<int>(rank_blobs.size()), -1);
  Encoder out(result);
  encode_parameters(out, state);
  encode_groups(out, state.groups);
  out.values("/scaler/scale", ElementType::float64(), std::vector<double>{state.scaler.scale});
  out.int64s("/scaler/growth_tracker", {state.scaler.growth_tracker});
  out.int64s("/scaler/hysteresis_left", {state.scaler.hysteresis_left});
  out.int64s("/scaler/consecutive_skips", {state.scaler.consecutive_skips});
  for (const auto& [name, value] : state.counters) out.int64s("/counters/" + name, {value});
  out.blobs("/blobs/shared/", state.blobs);
  for (std::size_t rank = 0; rank < rank_blobs.size(); ++rank) {
    out.blobs(rank_folder(static_cast<int>(rank)), rank_blobs[rank]);
  }
  for (const auto& [rank, blobs] : state.surplus_rank_blobs) out.blobs(rank_folder(rank), blobs);
  return result;
}

}  // namespace zero::checkpoint
