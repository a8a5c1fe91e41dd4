#include <cstring>
#include <limits>

#include "checkpoint/common_file.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

class Decoder {
 public:
  Decoder(File& file, const std::string& name, const FileRecord& record)
      : file_(file), name_(name), record_(record) {}

  [[noreturn]] void refuse(const std::string& what, std::string_view dataset) const {
    throw FormatError("a dataset breaks the format, use another checkpoint: " + what + ": " +
                      name_ + std::string(dataset));
  }
  std::vector<std::byte> bytes(std::string_view dataset, const ElementType& type,
                               const std::vector<std::int64_t>& shape) const {
    const DatasetRecord* record = record_.find(dataset);
    if (record == nullptr) refuse("it is missing", dataset);
    if (record->type != type || record->shape != shape) refuse("another type or shape", dataset);
    return read_dataset(file_, name_, *record);
  }
  template <class Value>
  std::vector<Value> values(std::string_view dataset, const ElementType& type,
                            const std::vector<std::int64_t>& shape) const {
    const std::vector<std::byte> raw = bytes(dataset, type, shape);
    std::vector<Value> result(raw.size() / sizeof(Value));
    if (!raw.empty()) std::memcpy(result.data(), raw.data(), raw.size());
    return result;
  }
  std::vector<std::int64_t> int64s(std::string_view dataset, std::int64_t count) const {
    return values<std::int64_t>(dataset, ElementType::of(DType::kInt64), {count});
  }
  std::int64_t int64(std::string_view dataset) const { return int64s(dataset, 1)[0]; }
  std::vector<double> float64s(std::string_view dataset, std::int64_t count) const {
    return values<double>(dataset, ElementType::float64(), {count});
  }
  const FileRecord& record() const { return record_; }

 private:
  File& file_;
  const std::string& name_;
  const FileRecord& record_;
};

std::vector<std::string> decode_names(const Decoder& in, std::int64_t count) {
  constexpr std::string_view kName = "/parameters/name";
  const DatasetRecord* record = in.record().find(kName);
  if (record == nullptr || record->type.kind != ElementType::Kind::kString) {
    in.refuse("it is missing or no text", kName);
  }
  const std::vector<std::byte> raw = in.bytes(kName, record->type, {count});
  const auto width = static_cast<std::size_t>(record->type.width);
  std::vector<std::string> names;
  for (std::size_t at = 0; at < raw.size(); at += width) {
    std::string name(reinterpret_cast<const char*>(raw.data()) + at, width);
    name.resize(name.find_last_not_of('\0') + 1);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::int64_t> decode_shape(const Decoder& in, std::span<const std::int64_t> row) {
  std::vector<std::int64_t> shape;
  for (const std::int64_t dimension : row) {
    if (dimension < 0) break;
    shape.push_back(dimension);
  }
  for (const std::int64_t unused : row.subspan(shape.size())) {
    if (unused != -1) in.refuse("an unused dimension is not -1", "/parameters/shape");
  }
  if (checked_product(shape) < 0) in.refuse("more than 2^62 elements", "/parameters/shape");
  return shape;
}

std::int32_t small(const Decoder& in, std::int64_t value, std::string_view dataset) {
  if (value < -1 || value > std::numeric_limits<std::int32_t>::max()) {
    in.refuse("a number is out of range", dataset);
  }
  return static_cast<std::int32_t>(value);
}

void decode_parameters(const Decoder& in, std::int64_t count, CommonState& state) {
  const ElementType uint8 = ElementType::of(DType::kUInt8);
  const auto width = static_cast<std::int64_t>(kMaxDimensions);
  const std::vector<std::string> names = decode_names(in, count);
  const auto shapes =
      in.values<std::int64_t>("/parameters/shape", ElementType::of(DType::kInt64), {count, width});
  const auto dtypes = in.values<std::uint8_t>("/parameters/dtype", uint8, {count});
  const auto trainable = in.values<std::uint8_t>("/parameters/trainable", uint8, {count});
  const auto groups = in.int64s("/parameters/group", count);
  const auto aliases = in.int64s("/parameters/alias_of", count);
  for (std::size_t row = 0; row < names.size(); ++row) {
    if (trainable[row] > 1) in.refuse("neither 0 nor 1", "/parameters/trainable");
    const auto shape = std::span(shapes).subspan(row * kMaxDimensions, kMaxDimensions);
    state.parameters.push_back({names[row], decode_shape(in, shape),
                                static_cast<DType>(dtypes[row]),
                                small(in, groups[row], "/parameters/group"), trainable[row] == 1,
                                small(in, aliases[row], "/parameters/alias_of")});
  }
  if (in.record().find("/parameters/applied_steps") != nullptr) {
    state.applied_steps = in.int64s("/parameters/applied_steps", count);
  }
}

/// The rest of the name if the dataset lies in the folder and the rest is a key.
std::string key_in(const Decoder& in, std::string_view dataset, std::string_view folder) {
  if (!dataset.starts_with(folder)) return {};
  const std::string_view key = dataset.substr(folder.size());
  if (!is_key(key)) in.refuse("its name is malformed", dataset);
  return std::string(key);
}

void decode_rank_blob(const Decoder& in, const DatasetRecord& record, Blob&& blob,
                      DecodedCommon& out) {
  constexpr std::string_view kFolder = "/blobs/rank/";
  const std::string_view rest = std::string_view(record.name).substr(kFolder.size());
  const std::string_view digits = rest.substr(0, rest.find('/'));
  if (digits.size() != 5 || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    in.refuse("its rank is malformed", record.name);
  }
  const int rank = std::stoi(std::string(digits));
  if (rank >= kMaxWorldSize) in.refuse("its rank is beyond 65535", record.name);
  const std::string folder = std::string(kFolder) + std::string(digits) + "/";
  const std::string key = key_in(in, record.name, folder);
  if (key.empty()) in.refuse("its name is malformed", record.name);
  const auto index = static_cast<std::size_t>(rank);
  Blobs& blobs =
      index < out.rank_blobs.size() ? out.rank_blobs[index] : out.state.surplus_rank_blobs[rank];
  blobs[key] = std::move(blob);
}

void decode_open_sets(const Decoder& in, DecodedCommon& out) {
  CommonState& state = out.state;
  const auto groups = static_cast<std::int64_t>(state.groups.size());
  for (const DatasetRecord& record : in.record().datasets) {
    const std::string_view name = record.name;
    if (const std::string key = key_in(in, name, "/groups/"); !key.empty()) {
      const std::vector<double> values = in.float64s(name, groups);
      for (std::size_t group = 0; group < values.size(); ++group) {
        state.groups[group][key] = values[group];
      }
    }
    if (const std::string key = key_in(in, name, "/counters/"); !key.empty()) {
      state.counters[key] = in.int64(name);
    }
    if (!name.starts_with("/blobs/")) continue;
    Blob blob =
        in.bytes(name, ElementType::of(DType::kUInt8), {static_cast<std::int64_t>(record.bytes)});
    if (const std::string key = key_in(in, name, "/blobs/shared/"); !key.empty()) {
      state.blobs[key] = std::move(blob);
    } else if (name.starts_with("/blobs/rank/")) {
      decode_rank_blob(in, record, std::move(blob), out);
    }
  }
}

}  // namespace

DecodedCommon decode_common(File& file, const std::string& name, const Manifest& manifest) {
  const Decoder in(file, name, manifest.common());
  DecodedCommon result;
  CommonState& state = result.state;
  state.step = manifest.step;
  state.run_id = manifest.run_id;
  state.stage = manifest.stage;
  decode_parameters(in, manifest.parameters, state);
  state.groups.resize(static_cast<std::size_t>(manifest.groups));
  state.scaler.scale = in.float64s("/scaler/scale", 1)[0];
  state.scaler.growth_tracker = in.int64("/scaler/growth_tracker");
  state.scaler.hysteresis_left =
      small(in, in.int64("/scaler/hysteresis_left"), "/scaler/hysteresis_left");
  state.scaler.consecutive_skips = in.int64("/scaler/consecutive_skips");
  result.rank_blobs.resize(static_cast<std::size_t>(manifest.world_size));
  decode_open_sets(in, result);
  try {
    validate(state);
  } catch (const ContractError& error) {
    throw FormatError("a table breaks the format, use another checkpoint: " + name + ": " +
                      error.what());
  }
  return result;
}

}  // namespace zero::checkpoint
