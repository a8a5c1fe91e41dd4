#pragma once

/// Models as `zero estimate` is told of them, in a JSON file (docs/memory.md).

#include <string>
#include <string_view>
#include <vector>

#include "libzero/estimate/transformer.h"
#include "libzero/layout/layout.h"

namespace zero::cli {

struct Model {
  Transformer shape;                      ///< What is known of it.
  std::vector<ParameterSpec> parameters;  ///< May be empty: then `shape` has to do.
};

/// Throws FormatError, naming `path` and the member, for what is no such file: bounded in size,
/// depth, rows and dimensions, no member is unknown, no number is out of range.
Model parse_model(std::string_view text, const std::string& path);

/// Throws IoError if the file cannot be read, FormatError.
Model read_model_file(const std::string& path);

/// The rows of a checkpoint (buffers are rows of group -1). Throws FormatError, IoError,
/// Unavailable in a build without checkpoints.
std::vector<ParameterSpec> parameters_of_checkpoint(const std::string& path);

}  // namespace zero::cli
