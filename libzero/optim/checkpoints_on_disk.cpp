#include "libzero/optim/checkpoints_on_disk.h"

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/ranks/patient_files.h"

namespace zero {
namespace {

/// A directory without a manifest is no reason to wait: it is not known to be a checkpoint.
bool is_named_by_a_manifest(std::string_view name) {
  return checkpoint::is_checkpoint_file_name(name) && name != checkpoint::kManifestName;
}

}  // namespace

std::unique_ptr<checkpoint::Store> open_store(const std::string& root) {
  checkpoint::Hdf5StoreOptions options;
  options.lock_wait = checkpoint::kPatientLockWait;
  return checkpoint::make_hdf5_store(checkpoint::on_disk(), root, std::move(options));
}

checkpoint::Candidates find_checkpoints(const std::string& from, bool fall_back, Collective& comm) {
  const auto files = checkpoint::with_patience(checkpoint::on_disk(), is_named_by_a_manifest);
  return checkpoint::find_candidates(*files, from, fall_back, comm);
}

std::unique_ptr<checkpoint::Reader> open_checkpoint(const std::string& directory) {
  return checkpoint::open_checkpoint(
      checkpoint::with_patience(checkpoint::on_disk(), checkpoint::is_checkpoint_file_name),
      directory);
}

std::optional<std::int64_t> step_of_directory(const std::string& directory) {
  return checkpoint::parse_step_name(directory.substr(directory.rfind('/') + 1));
}

}  // namespace zero
