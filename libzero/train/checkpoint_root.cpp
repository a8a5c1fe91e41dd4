#include "libzero/train/checkpoint_root.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/directories.h"
#include "checkpoint/names.h"

namespace zero {
namespace {

using checkpoint::FileError;
using checkpoint::FileKind;

constexpr const char* kJobLock = ".job.lock";

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
  const std::string path = checkpoint::join_path(root_, kJobLock);
  try {
    lock_ = files_->lock(path);
  } catch (const FileError& error) {
    if (error.code() != ENOLCK && error.code() != ENOSYS && error.code() != EOPNOTSUPP) throw;
    throw IoError(
        "checkpoints: this file system has no locks; set CheckpointOptions::lock to false if only "
        "this job saves here: " +
        path);
  }
  ZERO_REQUIRE(
      lock_ != nullptr,
      "checkpoints: another job saves into this root; wait for its end, or give each job a "
      "root of its own. It holds the lock " +
          path);
}

std::vector<std::string> CheckpointRoot::make_way(checkpoint::Store& store, std::int64_t step) {
  checkpoint::ensure_root(*files_, root_);
  keep_others_out();
  const checkpoint::Listing listing = store.list();
  for (const checkpoint::StepInfo& info : listing.steps) {
    ZERO_REQUIRE(info.step != step,
                 "checkpoints: the root has a whole checkpoint of this step already; resume from "
                 "the newest, remove it (zero gc), or save into another root: step " +
                     std::to_string(step) + " of run " + info.run_id + " in " + root_);
  }
  std::vector<std::string> notes;
  for (const checkpoint::Damaged& damaged : listing.damaged) {
    if (damaged.name != checkpoint::step_name(step)) continue;
    try {
      store.open(step);             // a disk that refuses to read is no damage: that throws
    } catch (const FormatError&) {  // as it should be
    }
    try {
      store.remove(step);
    } catch (const IoError& error) {  // a stranger's file in it, say; its name may be free now
      notes.push_back(std::string("a damaged checkpoint could not be removed whole: ") +
                      error.what());
      continue;
    }
    notes.push_back("removed a damaged checkpoint to save its step again: " + damaged.name + ": " +
                    damaged.problem);
  }
  return notes;
}

CheckpointRoot::Removal CheckpointRoot::tidy(checkpoint::Store& store,
                                             const checkpoint::RetentionRule& rule) {
  Removal removal;
  try {
    removal.steps = checkpoint::steps_to_remove(store.list(), rule);
    removal.warnings = checkpoint::apply_retention(store, rule);
  } catch (const Error& error) {
    removal.warnings.push_back(std::string("old checkpoints could not be removed: ") +
                               error.what());
  }
  return removal;
}

}  // namespace zero
