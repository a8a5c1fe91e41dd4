#include "cli/versions.h"

namespace zero::cli {

std::vector<LibraryVersion> checkpoint_libraries() {
  return {};
}

}  // namespace zero::cli
