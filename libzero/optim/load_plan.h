#pragma once

/// Everything about a load that tables alone can tell: pure, no tensor is looked at.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/loss_scaler.h"
#include "libzero/optim/resume.h"

namespace zero {

/// The optimizer that wants to take a checkpoint.
struct LiveTables {
  std::vector<ParameterSpec> rows;               ///< Parameters, then buffers.
  std::vector<checkpoint::GroupOptions> groups;  ///< Present options.
  std::string rule;                              ///< Its name.
  std::vector<std::string> moments;              ///< Names of what it keeps beside masters.
  std::vector<std::string> option_names;
  bool average = false;  ///< Whether one is kept: "ema".
  LossScaler scaler;
  LossScalerState fresh_scaler;  ///< As the constructor made it.
  int rank = 0;
  int world_size = 1;
};

struct LoadPlan {
  std::vector<std::int32_t> sources;  ///< As in RowMatch.
  bool moments = true;                ///< false: they begin at 0, whatever the checkpoint has.
  bool average = false;  ///< Take the checkpoint's; otherwise it begins at the masters.
  /// What each group takes from the checkpoint: some of the rule's.
  std::vector<checkpoint::GroupOptions> groups;
  std::int64_t steps_taken = 0;
  std::int64_t steps_applied = 0;
  /// For each row of the model: how many of these steps it took no part in, before its first.
  std::vector<std::int64_t> begun;
  std::optional<LossScalerState> scaler;  ///< Nothing: it stays as it is.
  /// Why the checkpoint is refused, a line each; nothing may be loaded unless this is empty.
  std::vector<std::string> differences;
  bool wrong_world = false;  ///< One of the reasons: resharding would help.
  std::vector<LoadItem> items;
};

/// `reader` is not asked for elements.
LoadPlan plan_load(const checkpoint::Reader& reader, const LiveTables& live,
                   const LoadOptions& options);

/// The error for a plan with differences: at most 50 of them and how many there are, what to do,
/// and for another world size the command that reshards. `directory`: the checkpoint's, or empty.
std::string refusal_of(const LoadPlan& plan, const checkpoint::StepInfo& info, int world_size,
                       const std::string& directory);

}  // namespace zero
