#include "cli/restart_policy.h"

#include "cli/exit_code.h"

namespace zero::cli {

int ranks_after(const RunSettings& settings, int present) {
  if (!settings.min_ranks) return present;
  const int divided = settings.micro_batches.value_or(settings.ranks);
  for (int ranks = present - 1; ranks >= *settings.min_ranks; --ranks) {
    if (divided % ranks == 0) return ranks;
  }
  return present;
}

std::string reason_to_stop(const RunSettings& settings, const TryEnd& end, int restarts_done) {
  if (end.asked_to_end) return "no restart, since the run was asked to end";
  if (end.code == kUsage || end.code == kCannotExecute || end.code == kNotFound) {
    return "no restart, since code " + std::to_string(end.code) +
           " says that another try would end the same way";
  }
  if (restarts_done < settings.restarts) return "";
  return "the restarts are used up (" + std::to_string(settings.restarts) + " of " +
         std::to_string(settings.restarts) + ")";
}

}  // namespace zero::cli
