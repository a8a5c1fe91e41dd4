#include "checkpoint/library_versions.h"
#include "cli/versions.h"

namespace zero::cli {

std::vector<LibraryVersion> checkpoint_libraries() {
  return checkpoint::library_versions();
}

}  // namespace zero::cli
