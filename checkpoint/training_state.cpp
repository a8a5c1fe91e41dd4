#include "checkpoint/training_state.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>

#include "libzero/base/error.h"
#include "libzero/base/utf8.h"

namespace zero::checkpoint {
namespace {

template <class Allowed>
bool all_of_length(std::string_view text, Allowed allowed) noexcept {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

bool is_lower_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

void validate_row(const CommonState& state, std::size_t row) {
  const ParameterSpec& spec = state.parameters[row];
  const std::string where = "parameter " + std::to_string(row) + " '" + spec.name + "'";
  ZERO_REQUIRE(
      is_parameter_name(spec.name),
      "a parameter's name must be 1 to 1024 bytes of UTF-8 without control characters: " + where);
  ZERO_REQUIRE(spec.shape.size() <= kMaxDimensions,
               "a parameter may have 8 dimensions at most, store it flattened: " + where);
  ZERO_REQUIRE(name_of(spec.dtype) != "unknown", "unknown dtype: " + where);
  spec.numel();
  const auto groups = static_cast<std::int64_t>(state.groups.size());
  ZERO_REQUIRE(spec.group >= -1 && spec.group < groups,
               "a parameter's group must be one of the groups, or -1 for a buffer: " + where +
                   ", group " + std::to_string(spec.group));
  ZERO_REQUIRE(spec.group >= 0 || !spec.trainable, "a trainable parameter needs a group: " + where);
  if (spec.alias_of == -1) return;
  ZERO_REQUIRE(spec.alias_of >= 0 && static_cast<std::size_t>(spec.alias_of) < row,
               "an alias must name an earlier parameter: " + where);
  const ParameterSpec& owner = state.parameters[static_cast<std::size_t>(spec.alias_of)];
  ZERO_REQUIRE(
      owner.alias_of == -1 && owner.shape == spec.shape && owner.dtype == spec.dtype,
      "an alias must name a parameter of its own shape and dtype that is no alias: " + where);
}

void validate_keys(const std::map<std::string, Blob>& blobs) {
  for (const auto& [key, blob] : blobs) {
    ZERO_REQUIRE(is_key(key), "a blob's key must be 1-64 of A-Z a-z 0-9 _ . -: '" + key + "'");
  }
}

void validate_view(const StateView& view, std::span<const ParameterSpec> parameters,
                   const std::string& where) {
  ZERO_REQUIRE(is_state_name(view.name), "a state's name must be 1-64 of a-z 0-9 _: " + where);
  const std::int64_t width = size_of(view.dtype);
  ZERO_REQUIRE(!view.fill || view.pieces.empty(),
               "a state is given by pieces of memory or by a function, not by both: " + where);
  ZERO_REQUIRE(view.fill || view.pieces.size() == view.extents.size(),
               "a state needs one piece of memory for each extent: " + where);
  const Extent* last = nullptr;
  for (std::size_t i = 0; i < view.extents.size(); ++i) {
    const Extent& extent = view.extents[i];
    const std::string text = where + ", " + describe(extent, parameters);
    ZERO_REQUIRE(
        extent.parameter >= 0 && static_cast<std::size_t>(extent.parameter) < parameters.size(),
        "an extent names a parameter that does not exist: " + text);
    const ParameterSpec& spec = parameters[static_cast<std::size_t>(extent.parameter)];
    ZERO_REQUIRE(spec.alias_of == -1, "an alias has no state of its own: " + text);
    ZERO_REQUIRE(extent.begin >= 0 && extent.begin < extent.end && extent.end <= spec.numel(),
                 "an extent is empty or passes its parameter: " + text);
    ZERO_REQUIRE(
        !last || std::tie(last->parameter, last->end) <= std::tie(extent.parameter, extent.begin),
        "extents must be sorted and disjoint: " + text);
    ZERO_REQUIRE(view.fill || view.pieces[i].size() ==
                                  static_cast<std::size_t>((extent.end - extent.begin) * width),
                 "a piece of memory has another size than its extent: " + text);
    last = &extent;
  }
}

}  // namespace

bool is_key(std::string_view text) noexcept {
  const auto allowed = [](char c) {
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  };
  return all_of_length(text, allowed) && text[0] != '.';
}

bool is_state_name(std::string_view text) noexcept {
  return all_of_length(text, is_lower_or_digit);
}

bool is_parameter_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxNameBytes) return false;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    if (length == 0 || first < 0x20 || first == 0x7f) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string describe(const Extent& extent, std::span<const ParameterSpec> parameters) {
  const auto row = static_cast<std::size_t>(extent.parameter);
  const std::string name = row < parameters.size()
                               ? parameters[row].name
                               : "parameter " + std::to_string(extent.parameter);
  return name + "[" + std::to_string(extent.begin) + ":" + std::to_string(extent.end) + ")";
}

void validate(const CommonState& state) {
  ZERO_REQUIRE(state.step >= 0 && state.step <= kMaxStep,
               "a step must be 0 to 999999999999: " + std::to_string(state.step));
  ZERO_REQUIRE(is_key(state.run_id),
               "a run id must be 1-64 of A-Z a-z 0-9 _ . -: '" + state.run_id + "'");
  ZERO_REQUIRE(state.stage >= 0 && state.stage <= 2,
               "the stage must be 0, 1 or 2: " + std::to_string(state.stage));
  ZERO_REQUIRE(
      !state.parameters.empty() && state.parameters.size() <= kMaxParameters,
      "a checkpoint needs 1 to 16777216 parameters: " + std::to_string(state.parameters.size()));
  std::unordered_set<std::string_view> names;
  for (std::size_t row = 0; row < state.parameters.size(); ++row) {
    validate_row(state, row);
    ZERO_REQUIRE(names.insert(state.parameters[row].name).second,
                 "two parameters have one name: '" + state.parameters[row].name + "'");
  }
  ZERO_REQUIRE(state.applied_steps.empty() || state.applied_steps.size() == state.parameters.size(),
               "applied_steps must be empty or have one entry for each parameter: " +
                   std::to_string(state.applied_steps.size()));
  ZERO_REQUIRE(state.groups.size() <= kMaxGroups,
               "there may be 65536 groups at most: " + std::to_string(state.groups.size()));
  for (const GroupOptions& group : state.groups) {
    ZERO_REQUIRE(group.size() == state.groups[0].size(), "all groups must have the same options");
    for (const auto& [option, value] : group) {
      ZERO_REQUIRE(is_key(option) && state.groups[0].contains(option),
                   "all groups must have the same options, of A-Z a-z 0-9 _ . -: '" + option + "'");
    }
  }
  for (const auto& [name, value] : state.counters) {
    ZERO_REQUIRE(is_key(name), "a counter's name must be 1-64 of A-Z a-z 0-9 _ . -: " + name);
  }
  validate_keys(state.blobs);
  for (const auto& [rank, blobs] : state.surplus_rank_blobs) {
    ZERO_REQUIRE(
        rank >= 0 && rank < kMaxWorldSize && !blobs.empty(),
        "surplus blobs must be of ranks 1 to 65535 and not be empty: rank " + std::to_string(rank));
    validate_keys(blobs);
  }
}

void validate(const CommonState& state, int world_size) {
  validate(state);
  ZERO_REQUIRE(world_size >= 1 && world_size <= kMaxWorldSize,
               "the world size must be 1 to 65536: " + std::to_string(world_size));
  ZERO_REQUIRE(
      state.surplus_rank_blobs.empty() || state.surplus_rank_blobs.begin()->first >= world_size,
      "surplus blobs are of ranks beyond the world size, hand in the others with put(): rank " +
          std::to_string(state.surplus_rank_blobs.begin()->first) + " of " +
          std::to_string(world_size));
}

void validate(const RankState& state, std::span<const ParameterSpec> parameters, int rank) {
  std::set<std::pair<std::string, DType>> seen;
  for (const StateView& view : state.states) {
    const std::string where = "rank " + std::to_string(rank) + ", state '" + view.name + "' " +
                              std::string(name_of(view.dtype));
    validate_view(view, parameters, where);
    ZERO_REQUIRE(seen.emplace(view.name, view.dtype).second, "a state was given twice: " + where);
  }
  validate_keys(state.blobs);
}

}  // namespace zero::checkpoint
