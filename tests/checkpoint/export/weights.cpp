#include "weights.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/memory_store.h"
#include "checkpoint/tools/safetensors.h"

namespace zero::checkpoint {
namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

float stored_float(const std::vector<std::byte>& bytes, DType dtype, std::size_t i) {
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + 2 * i, 2);
  return dtype == DType::kBFloat16 ? float_from_bfloat16(bits) : float_from_float16(bits);
}

std::string safetensors_name(DType dtype) {
  const std::map<DType, std::string> names = {{DType::kFloat32, "F32"},
                                              {DType::kBFloat16, "BF16"},
                                              {DType::kFloat16, "F16"},
                                              {DType::kInt64, "I64"},
                                              {DType::kUInt8, "U8"}};
  return names.at(dtype);
}

DType target_of(const ParameterSpec& spec, std::optional<DType> dtype) {
  return dtype && is_floating(spec.dtype) ? *dtype : spec.dtype;
}

}  // namespace

void Model::add(const std::string& name, std::vector<std::int64_t> shape, DType dtype,
                const std::vector<float>& values) {
  parameters.push_back({name, std::move(shape), dtype, 0, true, -1});
  weights[name] = bytes_of(values);
}

void Model::add_buffer(const std::string& name, std::vector<std::int64_t> shape, DType dtype,
                       const std::vector<std::byte>& bytes) {
  parameters.push_back({name, std::move(shape), dtype, -1, false, -1});
  weights[name] = bytes;
}

void Model::add_alias(const std::string& name, const std::string& owner) {
  std::int32_t row = 0;
  while (parameters[static_cast<std::size_t>(row)].name != owner) ++row;
  ParameterSpec spec = parameters[static_cast<std::size_t>(row)];
  spec.name = name;
  spec.alias_of = row;
  parameters.push_back(spec);
}

CommitResult Model::save(Store& store, int world_size) const {
  CommonState common;
  common.step = 9;
  common.run_id = "odd-run";
  common.parameters = parameters;
  common.groups = {{{"lr", 0.1}}};
  const auto writer = store.begin(common, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::map<std::pair<std::string, DType>, StateView> views;
    for (std::size_t row = 0; row < parameters.size(); ++row) {
      const ParameterSpec& spec = parameters[row];
      const std::int64_t n = spec.numel();
      const Extent extent{static_cast<std::int32_t>(row), n * rank / world_size,
                          n * (rank + 1) / world_size};
      if (spec.alias_of != -1 || extent.begin == extent.end) continue;
      const DType dtype = spec.trainable ? DType::kFloat32 : spec.dtype;
      StateView& view = views[{spec.trainable ? "master" : "value", dtype}];
      const auto width = static_cast<std::size_t>(size_of(dtype));
      view.name = spec.trainable ? "master" : "value";
      view.dtype = dtype;
      view.extents.push_back(extent);
      view.pieces.push_back(
          std::span(weights.at(spec.name))
              .subspan(static_cast<std::size_t>(extent.begin) * width,
                       static_cast<std::size_t>(extent.end - extent.begin) * width));
    }
    RankState state;
    for (auto& [key, view] : views) state.states.push_back(std::move(view));
    writer->put(rank, state);
  }
  return writer->commit();
}

std::vector<float> hard_numbers() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers = {0.0F,     -0.0F,     1.0F,       -1.5F,   65504.0F,     65519.9F,
                                65520.0F, kInfinity, -kInfinity, 3.4e38F, -3.4e38F,     6e-8F,
                                3e-8F,    2.9e-8F,   1e-40F,     -1e-45F, std::nanf("")};
  // Halfway between neighbours in both 16-bit formats, after an even and after an odd one.
  for (const float step : {0x1p-8F, 0x1p-11F}) {
    for (int odd = 0; odd < 4; ++odd) {
      numbers.push_back(1.0F + static_cast<float>(2 * odd + 1) * step);
      numbers.push_back(std::nextafter(numbers.back(), 2.0F));
    }
  }
  return numbers;
}

Model odd_model() {
  Model model;
  const std::vector<float> hard = hard_numbers();
  const auto n = static_cast<std::int64_t>(hard.size());
  model.add_buffer("mask", {3, 1}, DType::kUInt8, counting(3));
  model.add("block.0.weight", {n}, DType::kFloat32, hard);
  model.add("b\xc3\xa9ta \xf0\x9f\x98\x80 \"q\" \\ {x}", {1, n, 1}, DType::kBFloat16, hard);
  model.add("half", {n}, DType::kFloat16, hard);
  model.add("scalar", {}, DType::kFloat32, {0.1F});
  model.add("empty", {4, 0, 2}, DType::kBFloat16, {});
  model.add_alias("head", "block.0.weight");
  model.add_alias("no elements either", "empty");
  model.add_buffer("running_mean", {5}, DType::kFloat16, counting(10));
  model.add_buffer("batches", {}, DType::kInt64, counting(8));
  model.add(std::string(1024, 'n'), {2, 3}, DType::kFloat32, {1, 2, 3, 4, 5, 6.5F});
  model.add("..", {1}, DType::kFloat32, {8});
  return model;
}

std::vector<std::byte> expected_bytes(const Model& model, const ParameterSpec& spec, DType dtype) {
  const std::vector<std::byte>& stored = model.weights.at(spec.name);
  const DType from = spec.trainable ? DType::kFloat32 : spec.dtype;
  if (from == dtype) return stored;
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.numel() * size_of(dtype)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(spec.numel()); ++i) {
    const float value = stored_float(stored, from, i);
    const std::uint16_t half =
        dtype == DType::kBFloat16 ? bfloat16_from_float(value) : float16_from_float(value);
    const void* element = dtype == DType::kFloat32 ? static_cast<const void*>(&value) : &half;
    const auto width = static_cast<std::size_t>(size_of(dtype));
    std::memcpy(bytes.data() + i * width, element, width);
  }
  return bytes;
}

std::unique_ptr<Reader> saved(const Model& model, int world_size) {
  const auto store = make_memory_store();
  model.save(*store, world_size);
  return store->open(9);
}

std::string difference(FileSystem& files, const std::string& path, const Model& model,
                       std::optional<DType> dtype) {
  const SafetensorsWeights weights(files, path);
  const auto aliases = weights.aliases();
  for (const ParameterSpec& spec : model.parameters) {
    const auto found = weights.find(spec.name);
    if (spec.alias_of != -1) {
      const auto& owner = model.parameters[static_cast<std::size_t>(spec.alias_of)];
      if (found.file != nullptr || aliases.at(spec.name) != owner.name) return "alias " + spec.name;
      continue;
    }
    if (found.file == nullptr) return spec.name + " is missing";
    const DType target = target_of(spec, dtype);
    if (found.entry->dtype != safetensors_name(target))
      return spec.name + ": " + found.entry->dtype;
    if (found.entry->shape != spec.shape) return spec.name + ": shape";
    std::vector<std::byte> bytes(found.entry->end - found.entry->begin);
    found.file->read(*found.entry, 0, bytes);
    if (bytes != expected_bytes(model, spec, target)) return spec.name + ": bytes";
  }
  return weights.names().size() + aliases.size() == model.parameters.size() ? "" : "too many";
}

}  // namespace zero::checkpoint
