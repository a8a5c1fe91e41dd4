#include "libzero/collective/plugin_search.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace zero {

std::vector<std::string> plugin_candidates(const std::string& name) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  const char* const variable = std::getenv("ZERO_PLUGIN_PATH");
  const std::string path = variable == nullptr ? "" : variable;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib");
  }
  folders.emplace_back(ZERO_INSTALL_LIBDIR);
  folders.emplace_back(ZERO_BUILD_LIBDIR);
  std::vector<std::string> candidates;
  for (const fs::path& folder : folders) {
    candidates.push_back((folder / ("libzero_" + name + ".so")).string());
  }
  return candidates;
}

}  // namespace zero
