#pragma once

/// Models as `zero estimate` is told of them, in a JSON file (docs/memory.md).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kept_state.h"
#include "libzero/estimate/transformer.h"
#include "libzero/layout/layout.h"

namespace zero::cli {

struct Model {
  Transformer shape;                      ///< What is known of it.
  std::vector<ParameterSpec> parameters;  ///< May be empty: then `shape` has to do.
  std::optional<KeptState> kept;          ///< Known of checkpoints alone.
};

/// Throws FormatError, naming `path` and the member, for what is no such file: bounded in size,
/// depth, rows and dimensions, no member
/// is unknown or comes twice, no number is out of range.
Model parse_model(std::string_view text, const std::string& path);

/// Throws IoError if the file cannot be read, FormatError.
Model read_model_file(const std::string& path);

/// Rows (buffers are those of group -1) and what is kept for them. Throws FormatError, IoError,
/// Unavailable in a build without checkpoints.
Model model_of_checkpoint(const std::string& path);

}  // namespace zero::cli
