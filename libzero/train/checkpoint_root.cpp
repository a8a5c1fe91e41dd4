#include "libzero/train/checkpoint_root.h"

#include <utility>

#include "checkpoint/directories.h"
#include "checkpoint/locks.h"
#include "checkpoint/names.h"

namespace zero {
namespace {

using checkpoint::FileKind;

/// A listing calls damaged also what the disk did not let it look at; that throws IoError here.
bool is_damaged(checkpoint::Store& store, std::int64_t step) {
  try {
    store.open(step);
    return false;
  } catch (const FormatError&) {
    return true;
  }
}

[[noreturn]] void refuse_whole(const std::string& root, std::int64_t step) {
  throw ContractError(
      "checkpoints: the root has a whole checkpoint of this step already; resume from the newest, "
      "remove this one and the newer ones if the run went back to an older one (zero gc removes "
      "by rule), or save into another root: " +
      checkpoint::join_path(root, checkpoint::step_name(step)));
}

}  // namespace

CheckpointRoot::CheckpointRoot(std::shared_ptr<checkpoint::FileSystem> files, std::string root,
                               bool lock)
    : files_(std::move(files)), root_(std::move(root)), wants_lock_(lock) {
  const FileKind kind = files_->status(root_).kind;
  ZERO_REQUIRE(kind != FileKind::kRegular,
               "checkpoints: the root is a file, choose a directory: " + root_);
  if (kind != FileKind::kMissing) {
    keep_others_out();
    return;
  }
  const std::string parent = checkpoint::parent_path(root_);
  if (files_->status(parent).kind == FileKind::kMissing) {
    throw IoError("checkpoints: the folder that should hold the root does not exist; make it: " +
                  parent);
  }
}

void CheckpointRoot::keep_others_out() {
  if (!wants_lock_ || lock_ != nullptr) return;
  lock_ = checkpoint::lock_root(*files_, root_, checkpoint::RootLock::kJob, checkpoint::kLookWait);
}

void CheckpointRoot::resumed(std::int64_t step, const std::vector<std::int64_t>& damaged) {
  damaged_ = {damaged.begin(), damaged.end()};
  set_aside_ = damaged_;
  resumed_from_ = step;
}

std::vector<std::string> CheckpointRoot::make_way(checkpoint::Store& store, std::int64_t step) {
  checkpoint::ensure_root(*files_, root_);
  keep_others_out();
  std::vector<std::string> notes;
  const checkpoint::Listing listing = store.list();
  for (const checkpoint::StepInfo& info : listing.steps) {
    if (info.step > step) set_aside_.insert(info.step);
    if (info.step != step) continue;
    if (!damaged_.contains(step)) refuse_whole(root_, step);
    notes.push_back(clear(store, step, "reading it showed damage when the run was resumed"));
  }
  for (const checkpoint::Damaged& damaged : listing.damaged) {
    if (damaged.name != checkpoint::step_name(step)) continue;
    if (!is_damaged(store, step)) refuse_whole(root_, step);
    notes.push_back(clear(store, step, damaged.problem));
  }
  return notes;
}

/// Returns what there is to say about it.
std::string CheckpointRoot::clear(checkpoint::Store& store, std::int64_t step,
                                  const std::string& problem) {
  try {
    store.remove(step);
  } catch (const IoError& error) {  // a stranger's file in it, say; its name may be free now
    return std::string("a damaged checkpoint could not be removed whole: ") + error.what();
  }
  damaged_.erase(step);
  return "removed a damaged checkpoint to save its step again: " + checkpoint::step_name(step) +
         ": " + problem;
}

checkpoint::Removal CheckpointRoot::tidy(checkpoint::Store& store, checkpoint::RetentionRule rule,
                                         std::int64_t saved) {
  damaged_.erase(saved);
  set_aside_.erase(saved);
  if (resumed_from_ && saved > *resumed_from_) resumed_from_.reset();
  rule.pinned.push_back(saved);
  if (resumed_from_) rule.pinned.push_back(*resumed_from_);
  rule.set_aside.insert(rule.set_aside.end(), set_aside_.begin(), set_aside_.end());
  return checkpoint::apply_retention(store, rule);
}

}  // namespace zero
