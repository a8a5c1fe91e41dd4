#pragma once

#include <string>

namespace zero {

/// Of another library that is part of this build.
struct LibraryVersion {
  std::string name;
  std::string version;
};

}  // namespace zero
