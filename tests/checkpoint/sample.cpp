#include "sample.h"

#include <algorithm>
#include <cstring>

namespace zero::checkpoint {
namespace {

Blob blob_of(std::size_t size, int seed) {
  Blob blob(size);
  for (std::size_t i = 0; i < size; ++i)
    blob[i] = static_cast<std::byte>(i * 31 + 7 + static_cast<std::size_t>(seed));
  return blob;
}

bool is_trainable(const ParameterSpec& spec) {
  return spec.trainable && spec.alias_of == -1;
}

CommonState common_of(std::int64_t step) {
  CommonState common;
  common.step = step;
  common.run_id = "sample-run";
  common.stage = 2;
  common.parameters = sample_parameters();
  for (std::size_t i = 0; i < common.parameters.size(); ++i) {
    common.applied_steps.push_back(step + static_cast<std::int64_t>(i));
  }
  const double lr = 1e-3 / (1.0 + static_cast<double>(step));
  common.groups = {
      {{"lr", lr}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.1}},
      {{"lr", lr / 3}, {"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-6}, {"weight_decay", 0.0}}};
  common.scaler = {65536.0 / 4, step % 7, 1, step % 3};
  common.counters = {{"applied_steps", step}, {"samples_seen", step * 64}};
  common.blobs = {{"empty", {}}, {"schedule", blob_of(33, static_cast<int>(step))}};
  return common;
}

bool bits_equal(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string difference_of_common(const CommonState& got, const CommonState& want) {
  if (got.step != want.step || got.run_id != want.run_id || got.stage != want.stage)
    return "identity";
  if (got.parameters.size() != want.parameters.size()) return "number of parameters";
  for (std::size_t i = 0; i < want.parameters.size(); ++i) {
    const ParameterSpec& a = got.parameters[i];
    const ParameterSpec& b = want.parameters[i];
    if (describe(a) != describe(b)) return describe(a) + " instead of " + describe(b);
  }
  if (got.applied_steps != want.applied_steps) return "applied steps";
  if (got.groups.size() != want.groups.size()) return "number of groups";
  for (std::size_t i = 0; i < want.groups.size(); ++i) {
    for (const auto& [option, value] : want.groups[i]) {
      if (!got.groups[i].contains(option) || !bits_equal(got.groups[i].at(option), value))
        return option;
    }
    if (got.groups[i].size() != want.groups[i].size()) return "options";
  }
  if (got.scaler != want.scaler) return "scaler";
  if (got.counters != want.counters) return "counters";
  if (got.blobs != want.blobs) return "shared blobs";
  return {};
}

}  // namespace

std::vector<ParameterSpec> sample_parameters() {
  return {{"embed.weight", {7, 5}, DType::kFloat32, 0, true, -1},
          {"block.\xc3\xa9.bias", {13}, DType::kBFloat16, 1, true, -1},
          {"scale", {}, DType::kFloat32, 1, true, -1},
          {"empty", {0, 3}, DType::kFloat32, 0, true, -1},
          {"frozen", {3, 1, 3}, DType::kFloat16, 0, false, -1},
          {"head.weight", {7, 5}, DType::kFloat32, 0, true, 0},
          {"batches", {}, DType::kInt64, -1, false, -1},
          {"mask", {17}, DType::kUInt8, -1, false, -1}};
}

Sample::Sample(std::int64_t step, int world_size) : common_(common_of(step)) {
  ranks_.resize(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<std::int32_t> trainable;
    std::map<DType, std::vector<std::int32_t>> fixed;
    for (std::size_t i = 0; i < common_.parameters.size(); ++i) {
      const ParameterSpec& spec = common_.parameters[i];
      if (is_trainable(spec)) trainable.push_back(static_cast<std::int32_t>(i));
      if (!spec.trainable) fixed[spec.dtype].push_back(static_cast<std::int32_t>(i));
    }
    for (const char* name : {"master", "exp_avg", "exp_avg_sq"}) {
      add_state(rank, name, DType::kFloat32, trainable);
    }
    for (const auto& [dtype, parameters] : fixed) add_state(rank, "value", dtype, parameters);
    ranks_[static_cast<std::size_t>(rank)].blobs = {
        {"rng", blob_of(11, rank)}, {"sampler", blob_of(static_cast<std::size_t>(rank), 5)}};
  }
}

void Sample::add_state(int rank, const std::string& name, DType dtype,
                       const std::vector<std::int32_t>& parameters) {
  StateView view{name, dtype, {}, {}};
  for (const std::int32_t parameter : parameters) {
    const std::int64_t n = common_.parameters[static_cast<std::size_t>(parameter)].numel();
    const Extent extent{parameter, n * rank / world_size(), n * (rank + 1) / world_size()};
    if (extent.begin == extent.end) continue;
    memory_.push_back(expected(common_.step, name, dtype, extent));
    view.extents.push_back(extent);
    view.pieces.emplace_back(memory_.back());
  }
  ranks_[static_cast<std::size_t>(rank)].states.push_back(std::move(view));
}

void Sample::shrink(const std::string& keep) {
  common_.parameters.resize(1);
  common_.applied_steps.clear();
  common_.groups = {{{"lr", 0.5}}};
  common_.counters.clear();
  common_.blobs.clear();
  for (RankState& rank : ranks_) {
    rank.blobs.clear();
    std::erase_if(rank.states, [&](const StateView& view) { return view.name != keep; });
    for (StateView& view : rank.states) {
      view.extents.resize(1);
      view.pieces.resize(1);
    }
  }
}

Sample tiny_sample(std::int64_t step, int world_size) {
  Sample sample(step, world_size);
  sample.shrink("master");
  return sample;
}

std::vector<std::byte> Sample::expected(std::int64_t step, std::string_view state, DType dtype,
                                        const Extent& extent) {
  const auto width = static_cast<std::uint64_t>(size_of(dtype));
  std::vector<std::byte> bytes;
  for (std::int64_t i = extent.begin; i < extent.end; ++i) {
    std::uint64_t word = static_cast<std::uint64_t>(step) * 0x9e3779b97f4a7c15u;
    for (const char c : state) word = (word ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    word ^= static_cast<std::uint64_t>(extent.parameter) << 40;
    word = (word + static_cast<std::uint64_t>(i)) * 0xff51afd7ed558ccdu;
    word ^= word >> 29;
    for (std::uint64_t b = 0; b < width; ++b)
      bytes.push_back(static_cast<std::byte>(word >> (8 * b)));
  }
  return bytes;
}

CommitResult save(Store& store, const Sample& sample) {
  const auto writer = store.begin(sample.common(), sample.world_size());
  for (int rank = 0; rank < sample.world_size(); ++rank) writer->put(rank, sample.rank(rank));
  return writer->commit();
}

CommitResult save(Store& store, std::int64_t step, int world_size) {
  return save(store, Sample(step, world_size));
}

std::string difference(const Reader& reader, std::int64_t step, int world_size) {
  const Sample sample(step, world_size);
  if (reader.info().world_size != world_size) return "world size";
  std::string found = difference_of_common(reader.common(), sample.common());
  if (!found.empty()) return found;
  for (int rank = 0; rank < world_size; ++rank) {
    if (reader.rank_blobs(rank) != sample.rank(rank).blobs)
      return "blobs of rank " + std::to_string(rank);
  }
  const auto& parameters = sample.common().parameters;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const ParameterSpec& spec = parameters[row];
    const auto parameter = static_cast<std::int32_t>(row);
    const std::int32_t owner = spec.alias_of == -1 ? parameter : spec.alias_of;
    const std::vector<std::string> states = reader.states(parameter);
    const std::size_t wanted = spec.numel() == 0 ? 0 : spec.trainable ? 3 : 1;
    if (states.size() != wanted) return "states of " + spec.name;
    for (const std::string& state : states) {
      const DType dtype = spec.trainable ? DType::kFloat32 : spec.dtype;
      if (reader.dtype(parameter, state) != dtype) return "dtype of " + spec.name;
      const auto want = Sample::expected(step, state, dtype, {owner, 0, spec.numel()});
      std::vector<std::byte> got(want.size());
      reader.read(parameter, state, 0, spec.numel(), got);
      if (got != want) return state + " of " + spec.name;
    }
  }
  return {};
}

}  // namespace zero::checkpoint
