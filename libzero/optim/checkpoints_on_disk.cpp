#include "libzero/optim/checkpoints_on_disk.h"

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"

namespace zero {

std::unique_ptr<checkpoint::Store> open_store(const std::string& root) {
  checkpoint::Hdf5StoreOptions options;
  options.lock_wait = checkpoint::kPatientLockWait;
  return checkpoint::make_hdf5_store(checkpoint::on_disk(), root, std::move(options));
}

checkpoint::Candidates find_checkpoints(const std::string& from, bool fall_back, Collective& comm) {
  return checkpoint::find_candidates(*checkpoint::on_disk(), from, fall_back, comm);
}

std::unique_ptr<checkpoint::Reader> open_checkpoint(const std::string& directory) {
  return checkpoint::open_checkpoint(checkpoint::on_disk(), directory);
}

std::optional<std::int64_t> step_of_directory(const std::string& directory) {
  return checkpoint::parse_step_name(directory.substr(directory.rfind('/') + 1));
}

}  // namespace zero
