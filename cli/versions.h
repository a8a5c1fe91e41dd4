#pragma once

#include <string>
#include <vector>

#include "libzero/base/library_version.h"

namespace zero::cli {

/// "zero 0.1.0", then a line for each library that is part of the command.
std::string versions_text();

/// Those that checkpoints need; none in a build without.
std::vector<LibraryVersion> checkpoint_libraries();

}  // namespace zero::cli
