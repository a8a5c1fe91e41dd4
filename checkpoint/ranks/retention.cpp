#include "checkpoint/ranks/retention.h"

#include <algorithm>

namespace zero::checkpoint {

std::vector<std::int64_t> steps_to_remove(const Listing& listing, const RetentionRule& rule) {
  ZERO_REQUIRE(rule.keep >= 0,
               "keep must be 0 (all) or more checkpoints: " + std::to_string(rule.keep));
  ZERO_REQUIRE(rule.keep_every >= 0, "keep_every must be 0 (off) or a number of steps: " +
                                         std::to_string(rule.keep_every));
  std::vector<std::int64_t> removable;
  if (rule.keep == 0) return removable;
  std::int64_t newer = 0;  // Of those that count, newer than the one looked at.
  for (auto info = listing.steps.rbegin(); info != listing.steps.rend(); ++info) {
    if (!rule.run_id.empty() && info->run_id != rule.run_id) continue;
    const bool kept =
        newer++ < rule.keep || (rule.keep_every > 0 && info->step % rule.keep_every == 0) ||
        std::find(rule.pinned.begin(), rule.pinned.end(), info->step) != rule.pinned.end();
    if (!kept) removable.push_back(info->step);
  }
  std::reverse(removable.begin(), removable.end());
  return removable;
}

std::vector<std::string> apply_retention(Store& store, const RetentionRule& rule) {
  Listing listing;
  try {
    listing = store.list();
  } catch (const IoError& error) {
    return {std::string("old checkpoints could not be listed, none was removed: ") + error.what()};
  }
  std::vector<std::string> problems;
  for (const std::int64_t step : steps_to_remove(listing, rule)) {
    try {
      store.remove(step);
    } catch (const Error& error) {
      problems.push_back("an old checkpoint could not be removed: step " + std::to_string(step) +
                         ": " + error.what());
    }
  }
  return problems;
}

}  // namespace zero::checkpoint
