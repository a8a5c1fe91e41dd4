#include "cli/gc_plan.h"

#include <algorithm>

#include "checkpoint/locks.h"
#include "checkpoint/names.h"

namespace zero::cli {
namespace {

using checkpoint::FileSystem;
using checkpoint::RootLock;

std::string why_old(const checkpoint::RetentionRule& rule) {
  std::string why = "not among the newest " + std::to_string(rule.keep);
  if (!rule.run_id.empty()) why += " of " + rule.run_id;
  if (rule.keep_every > 0) why += ", no multiple of " + std::to_string(rule.keep_every);
  return why;
}

/// 0 where it cannot be looked at.
std::uint64_t size_of_damaged(FileSystem& files, const std::string& path) {
  try {
    return checkpoint::bytes_in(files, path);
  } catch (const IoError&) {
    return 0;
  }
}

/// Whether what is unfinished belongs to a save that is under way: whoever saves holds the lock.
/// What cannot be told goes into `note`.
bool is_under_way(FileSystem& files, const std::string& root, std::string& note) {
  try {
    if (files.status(checkpoint::join_path(root, checkpoint::kLockName)).kind ==
        checkpoint::FileKind::kMissing) {
      note = "this root has no lock: what is unfinished may belong to a save under way";
      return false;
    }
    if (!checkpoint::is_held(files, root, RootLock::kSave)) return false;
    note = "a save or a removal is under way: what is unfinished may be its own, and stays";
    return true;
  } catch (const checkpoint::FileError& error) {
    note = std::string("what is unfinished may belong to a save under way: ") + error.what();
    return false;
  }
}

/// What there is to say about a job that saves here; empty if there is none, or nobody may know.
std::string note_of_job(FileSystem& files, const std::string& root) {
  try {
    return problem_of_job(files, root);
  } catch (const checkpoint::FileError&) {  // --apply will say it
    return {};
  }
}

void add_leftovers(GcPlan& plan, FileSystem& files, const std::string& root, bool has_lock) {
  const auto leftovers = checkpoint::find_leftovers(files, root);
  if (leftovers.empty() || (!has_lock && is_under_way(files, root, plan.note))) return;
  for (const checkpoint::Leftover& leftover : leftovers) {
    plan.doomed.push_back({leftover.name, -1, leftover.bytes, "leftover",
                           "left by a save or removal that did not end"});
  }
}

}  // namespace

std::uint64_t GcPlan::bytes() const {
  std::uint64_t bytes = 0;
  for (const Doomed& each : doomed) bytes += each.bytes;
  return bytes;
}

std::string problem_of_job(FileSystem& files, const std::string& root) {
  if (!checkpoint::is_held(files, root, RootLock::kJob)) return {};
  return "a job lives that saves into this root and removes old checkpoints by its own rule, so "
         "--apply removes nothing; wait for its end. It holds the lock " +
         checkpoint::join_path(root, checkpoint::kJobLockName);
}

GcPlan plan_gc(FileSystem& files, checkpoint::Store& store, const std::string& root,
               const GcRules& rules, bool has_lock) {
  GcPlan plan;
  add_leftovers(plan, files, root, has_lock);
  const std::string job = note_of_job(files, root);
  if (!job.empty()) plan.note += (plan.note.empty() ? "" : "; ") + job;
  const checkpoint::Listing listing = store.list();
  const std::vector<std::int64_t> old = checkpoint::steps_to_remove(listing, rules.retention);
  for (const checkpoint::StepInfo& info : listing.steps) {
    const std::string name = checkpoint::step_name(info.step);
    if (std::ranges::find(old, info.step) == old.end()) {
      plan.kept.push_back(name);
    } else {
      plan.doomed.push_back({name, info.step, info.bytes, "old", why_old(rules.retention)});
    }
  }
  for (const checkpoint::Damaged& damaged : listing.damaged) {
    const auto step = checkpoint::parse_step_name(damaged.name);
    if (!rules.damaged || !step || damaged.unreadable) {
      plan.damaged.push_back(damaged);
      continue;
    }
    const std::string path = checkpoint::join_path(root, damaged.name);
    plan.doomed.push_back(
        {damaged.name, *step, size_of_damaged(files, path), "damaged", damaged.problem});
  }
  return plan;
}

}  // namespace zero::cli
