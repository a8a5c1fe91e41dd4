#include "cli/inspect_report.h"

#include <algorithm>

namespace zero::cli {

using checkpoint::Inspection;
using checkpoint::Piece;

namespace {

std::int32_t row_of(const Piece& piece) {
  return piece.extent.parameter;
}

}  // namespace

std::string kind_of(const ParameterSpec& parameter) {
  if (parameter.alias_of != -1) return "alias";
  if (parameter.group < 0) return "buffer";
  return parameter.trainable ? "trainable" : "frozen";
}

std::int32_t owner_of(const Inspection& what, std::int32_t parameter) {
  const std::int32_t owner = what.common.parameters[static_cast<std::size_t>(parameter)].alias_of;
  return owner == -1 ? parameter : owner;
}

std::span<const Piece> pieces_of(const Inspection& what, std::int32_t parameter) {
  const auto begin = std::ranges::lower_bound(what.pieces, parameter, {}, row_of);
  const auto end = std::ranges::upper_bound(what.pieces, parameter, {}, row_of);
  return {begin, end};
}

std::map<std::string, StateSum> sums_by_state(std::span<const Piece> pieces) {
  std::map<std::string, StateSum> sums;
  for (const Piece& piece : pieces) {
    StateSum& sum = sums.try_emplace(piece.state, StateSum{piece.dtype, 0, 0}).first->second;
    sum.elements += piece.extent.end - piece.extent.begin;
    sum.bytes += piece.bytes();
  }
  return sums;
}

std::optional<MemorySums> memory_sums_of(const Inspection& what) {
  std::optional<MemorySums> sums;
  for (const auto& memory : what.memory) {
    if (!memory) continue;
    if (!sums) sums.emplace();
    const auto host = static_cast<std::uint64_t>(memory->host);
    const auto device = static_cast<std::uint64_t>(memory->device);
    sums->host += host;
    sums->device += device;
    sums->largest_host = std::max(sums->largest_host, host);
    sums->largest_device = std::max(sums->largest_device, device);
  }
  return sums;
}

std::optional<std::int64_t> applied_steps_of(const Inspection& what, std::int32_t parameter) {
  if (what.common.applied_steps.empty()) return std::nullopt;
  return what.common.applied_steps[static_cast<std::size_t>(parameter)];
}

}  // namespace zero::cli
