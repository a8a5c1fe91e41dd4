#include <algorithm>
#include <set>

#include "checkpoint/tools/digest_builder.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

struct ParameterState {
  std::string state;
  std::int32_t parameter = 0;
  auto operator<=>(const ParameterState&) const = default;
};

/// Those whose elements do not come in order when ranks are read one after the other. Ownership's
/// rule makes none, but the format allows them.
std::set<ParameterState> out_of_order(const Reader& reader,
                                      const std::vector<std::string>& states) {
  std::set<ParameterState> result;
  std::vector<std::int64_t> next;
  for (const std::string& state : states) {
    next.assign(reader.common().parameters.size(), 0);
    for (int rank = 0; rank < reader.info().world_size; ++rank) {
      for (const Extent& extent : reader.extents(rank, state)) {
        std::int64_t& expected = next[static_cast<std::size_t>(extent.parameter)];
        if (extent.begin != expected) result.insert({state, extent.parameter});
        expected = extent.end;
      }
    }
  }
  return result;
}

/// What a rank holds of a state lies together by dtype: so it is read.
std::map<DType, std::vector<Extent>> extents_by_dtype(const Reader& reader, int rank,
                                                      const std::string& state) {
  std::map<DType, std::vector<Extent>> result;
  for (const Extent& extent : reader.extents(rank, state)) {
    result[reader.dtype(extent.parameter, state)].push_back(extent);
  }
  return result;
}

class Scan {
 public:
  Scan(const Reader& reader, std::size_t part_bytes, Meter& meter)
      : reader_(reader),
        meter_(meter),
        states_(states_of(reader)),
        unordered_(out_of_order(reader, states_)),
        builder_(reader.common().parameters),
        part_bytes_(part_bytes) {}

  Digests run() {
    for (int rank = 0; rank < reader_.info().world_size; ++rank) {
      for (const std::string& state : states_) add_part_of(rank, state);
    }
    for (const auto& [state, parameter] : unordered_) {
      const std::int64_t numel = spec(parameter).numel();
      add(state, reader_.dtype(parameter, state), {parameter, 0, numel});
    }
    return builder_.finish();
  }

 private:
  const ParameterSpec& spec(std::int32_t parameter) const {
    return reader_.common().parameters[static_cast<std::size_t>(parameter)];
  }

  void add_part_of(int rank, const std::string& state) {
    for (const auto& [dtype, extents] : extents_by_dtype(reader_, rank, state)) {
      for (const Extent& extent : extents) {
        if (!unordered_.contains({state, extent.parameter})) add(state, dtype, extent);
      }
    }
  }

  void add(const std::string& state, DType dtype, const Extent& extent) {
    const std::int64_t width = size_of(dtype);
    const std::int64_t step = static_cast<std::int64_t>(part_bytes_) / width;
    for (std::int64_t begin = extent.begin; begin < extent.end; begin += step) {
      const std::int64_t end = std::min(extent.end, begin + step);
      part_.resize(static_cast<std::size_t>((end - begin) * width));
      reader_.read(extent.parameter, state, begin, end, part_);
      builder_.add(state, {extent.parameter, begin, end}, part_);
      meter_.advance(part_.size());
    }
  }

  const Reader& reader_;
  Meter& meter_;
  const std::vector<std::string> states_;
  const std::set<ParameterState> unordered_;
  DigestBuilder builder_;
  const std::size_t part_bytes_;
  std::vector<std::byte> part_;
};

}  // namespace

void DigestBuilder::add(std::string_view name, const Extent& part,
                        std::span<const std::byte> bytes) {
  auto found = states_.find(name);
  if (found == states_.end()) found = states_.emplace(name, State{}).first;
  State& state = found->second;
  const auto before = state.begun.find(part.parameter);
  const std::int64_t next = before == state.begun.end() ? 0 : before->second.next;
  ZERO_REQUIRE(part.begin == next && !state.ended.contains(part.parameter),
               "a part does not follow on the one before it: state '" + std::string(name) + "', " +
                   describe(part, parameters_));
  Begun& begun = state.begun[part.parameter];
  begun.hasher.add(bytes);
  begun.next = part.end;
  if (part.end < parameters_[static_cast<std::size_t>(part.parameter)].numel()) return;
  state.ended[part.parameter] = begun.hasher.value();
  state.begun.erase(part.parameter);
}

Digests DigestBuilder::finish() {
  Digests digests;
  for (const auto& [name, state] : states_) {
    ZERO_REQUIRE(state.begun.empty(),
                 "a parameter is not whole: state '" + name + "', " +
                     parameters_[static_cast<std::size_t>(state.begun.begin()->first)].name);
    Hasher hasher;
    for (const auto& [parameter, hash] : state.ended) hasher.add(hash.bytes);
    digests[name] = hasher.value();
  }
  return digests;
}

std::vector<std::string> states_of(const Reader& reader) {
  std::set<std::string> names;
  for (std::size_t row = 0; row < reader.common().parameters.size(); ++row) {
    for (std::string& name : reader.states(static_cast<std::int32_t>(row))) {
      names.insert(std::move(name));
    }
  }
  return {names.begin(), names.end()};
}

std::uint64_t state_bytes(const Reader& reader) {
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < reader.common().parameters.size(); ++row) {
    const ParameterSpec& spec = reader.common().parameters[row];
    if (spec.alias_of != -1) continue;
    const auto parameter = static_cast<std::int32_t>(row);
    for (const std::string& state : reader.states(parameter)) {
      bytes += static_cast<std::uint64_t>(spec.numel() * size_of(reader.dtype(parameter, state)));
    }
  }
  return bytes;
}

Digests digests_of(const Reader& reader, std::size_t part_bytes, Meter& meter) {
  return Scan(reader, part_bytes, meter).run();
}

Digests digests_of(const Reader& reader, const Progress& progress) {
  Meter meter(progress, state_bytes(reader), "digests");
  return digests_of(reader, kPartBytes, meter);
}

}  // namespace zero::checkpoint
