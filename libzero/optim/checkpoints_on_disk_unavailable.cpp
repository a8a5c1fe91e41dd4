#include "libzero/base/error.h"
#include "libzero/optim/checkpoints_on_disk.h"

namespace zero {
namespace {

[[noreturn]] void throw_unavailable() {
  throw Unavailable(
      "checkpoints on disk are not in this build; build libzero with LIBZERO_WITH_HDF5=ON, or pass "
      "a checkpoint::Store of your own");
}

}  // namespace

std::unique_ptr<checkpoint::Store> open_store(const std::string&) {
  throw_unavailable();
}

checkpoint::Candidates find_checkpoints(const std::string&, bool, Collective&) {
  throw_unavailable();
}

std::unique_ptr<checkpoint::Reader> open_checkpoint(const std::string&) {
  throw_unavailable();
}

std::optional<std::int64_t> step_of_directory(const std::string&) {
  throw_unavailable();
}

}  // namespace zero
