#include "checkpoint/library_versions.h"

#include <H5public.h>
#include <xxhash.h>

#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

std::string text(unsigned major, unsigned minor, unsigned release) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace

std::vector<LibraryVersion> library_versions() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) {
    throw Error("HDF5 does not tell its version, look whether libhdf5 is whole");
  }
  return {{"HDF5", text(major, minor, release)},
          {"xxHash", text(XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE)}};
}

}  // namespace zero::checkpoint
