#include "cli/versions.h"

#include <algorithm>
#include <iterator>

#include <CLI/Version.hpp>

#include "backends/rendezvous/boost_version.h"
#include "cli/json.h"
#include "libzero/kernels/highway_version.h"

namespace zero::cli {

std::string versions_text() {
  std::vector<LibraryVersion> libraries = checkpoint_libraries();
  libraries.push_back(highway_version());
  libraries.push_back(boost_version());
  libraries.push_back({"CLI11", CLI11_VERSION});
  libraries.push_back({"nlohmann-json", std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
                                            std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                                            std::to_string(NLOHMANN_JSON_VERSION_PATCH)});
  std::string text = "zero " ZERO_VERSION;
  for (const LibraryVersion& library : libraries) {
    text += "\n" + library.name + " " + library.version;
  }
  return text;
}

}  // namespace zero::cli
