/// For builds without HDF5.

#include "libzero/base/error.h"
#include "libzero/train/checkpointer.h"

namespace zero {
namespace {

constexpr const char* kMissing =
    "checkpoints on disk are not in this build; build libzero with LIBZERO_WITH_HDF5=ON";

}  // namespace

struct Checkpointer::Impl {};

Checkpointer::Checkpointer(Optimizer&, const std::string&, const CheckpointOptions&) {
  throw Unavailable(kMissing);
}

Checkpointer::~Checkpointer() = default;

void Checkpointer::save(const TrainerState&) {
  throw Unavailable(kMissing);
}
LoadReport Checkpointer::resume(LoadOptions) {
  throw Unavailable(kMissing);
}
void Checkpointer::finish() {
  throw Unavailable(kMissing);
}

}  // namespace zero
