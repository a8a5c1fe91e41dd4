#pragma once

/// What `zero inspect` prints.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/inspect.h"

namespace zero::cli {

/// "trainable", "frozen", "buffer" or "alias".
std::string kind_of(const ParameterSpec& parameter);

/// Aligned text, about `width` columns wide.
std::string inspection_text(const std::string& directory, const checkpoint::Inspection& what,
                            int width);
std::string parameter_text(const checkpoint::Inspection& what, std::int32_t parameter, int width);

/// JSON with the keys of docs/cli.md.
std::string inspection_json(const std::string& directory, const checkpoint::Inspection& what);
std::string parameter_json(const std::string& directory, const checkpoint::Inspection& what,
                           std::int32_t parameter);

/// The row that holds a parameter's elements: its owner's for an alias.
std::int32_t owner_of(const checkpoint::Inspection& what, std::int32_t parameter);

/// Pieces of one row; sorted by state, then begin.
std::span<const checkpoint::Piece> pieces_of(const checkpoint::Inspection& what,
                                             std::int32_t parameter);

/// Sums over pieces, by state.
struct StateSum {
  DType dtype = DType::kFloat32;  ///< Of the first piece.
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
};
std::map<std::string, StateSum> sums_by_state(std::span<const checkpoint::Piece> pieces);

/// What the ranks' optimizers held as they saved; nothing if no rank says.
struct MemorySums {
  std::uint64_t host = 0, device = 0;                  ///< Of all ranks that say.
  std::uint64_t largest_host = 0, largest_device = 0;  ///< Of one rank.
};
std::optional<MemorySums> memory_sums_of(const checkpoint::Inspection& what);

/// How often the optimizer has applied updates to a parameter, if the checkpoint says so for each.
std::optional<std::int64_t> applied_steps_of(const checkpoint::Inspection& what,
                                             std::int32_t parameter);

}  // namespace zero::cli
