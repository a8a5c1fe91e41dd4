#pragma once

/// Which row of a checkpoint belongs to which row of the model, and what speaks against it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/resume.h"

namespace zero {

struct RowMatch {
  /// For each row of the model: the row of the checkpoint (no alias) that it takes its values from,
  /// or -1. Aliases of the model have -1: their owner takes them.
  std::vector<std::int32_t> sources;
  std::vector<std::string> differences;  ///< What the options do not allow, a line each.
  std::vector<LoadItem> items;           ///< What they allow, and was needed.
  bool regrouped = false;                ///< A trainable parameter moved to another group.
};

/// Rows belong together by name, in whatever order; tied ones as long as the same names are tied.
/// Buffers are rows of group -1.
RowMatch match_rows(std::span<const ParameterSpec> saved, std::span<const ParameterSpec> live,
                    const LoadOptions& options);

/// Whether frozen parameters may be trained now, and the other way round.
bool may_change_training(const LoadOptions& options) noexcept;

/// The state that holds a saved parameter's values: "master" if it was trained, else "value".
const char* weights_of(const ParameterSpec& saved) noexcept;

/// "float32 [3, 4]".
std::string element_text(const ParameterSpec& row);

}  // namespace zero
