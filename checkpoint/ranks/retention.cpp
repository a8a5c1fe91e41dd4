#include "checkpoint/ranks/retention.h"

#include <algorithm>

namespace zero::checkpoint {
namespace {

bool contains(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

}  // namespace

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
    if (contains(rule.set_aside, info->step)) continue;
    const bool kept = newer++ < rule.keep ||
                      (rule.keep_every > 0 && info->step % rule.keep_every == 0) ||
                      contains(rule.pinned, info->step);
    if (!kept) removable.push_back(info->step);
  }
  std::reverse(removable.begin(), removable.end());
  return removable;
}

Removal apply_retention(Store& store, const RetentionRule& rule) {
  Removal removal;
  Listing listing;
  try {
    listing = store.list();
  } catch (const Error& error) {
    removal.problems = {std::string("old checkpoints could not be listed, none was removed: ") +
                        error.what()};
    return removal;
  }
  for (const std::int64_t step : steps_to_remove(listing, rule)) {
    try {
      store.remove(step);
      removal.removed.push_back(step);
    } catch (const Error& error) {
      removal.problems.push_back("an old checkpoint could not be removed: step " +
                                 std::to_string(step) + ": " + error.what());
    }
  }
  return removal;
}

}  // namespace zero::checkpoint
