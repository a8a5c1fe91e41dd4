#include "libzero/collective/plugin_search.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>

namespace zero {
namespace {

namespace fs = std::filesystem;

void add_folders_of_variable(const std::string& path, std::vector<fs::path>& folders) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
}

/// Where the shared libraries of a loaded object (null: of the program) are looked for:
/// LD_LIBRARY_PATH, its RUNPATH, the system's. One linked in, or against, a build folder has that
/// folder's in its RUNPATH.
void add_folders_of_linker(const char* object, std::vector<fs::path>& folders) {
  void* const program = ::dlopen(object, object == nullptr ? RTLD_LAZY : RTLD_LAZY | RTLD_NOLOAD);
  Dl_serinfo sizes{};
  if (program == nullptr || ::dlinfo(program, RTLD_DI_SERINFOSIZE, &sizes) != 0) return;
  std::vector<std::max_align_t> room(sizes.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(room.data());
  info->dls_size = sizes.dls_size;
  info->dls_cnt = sizes.dls_cnt;
  if (::dlinfo(program, RTLD_DI_SERINFO, info) != 0) return;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
}

}  // namespace

std::vector<std::string> plugin_candidates(const std::string& name) {
  std::vector<fs::path> folders;
  const char* const path = std::getenv("ZERO_PLUGIN_PATH");
  add_folders_of_variable(path == nullptr ? "" : path, folders);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib");
  }
  folders.emplace_back(ZERO_INSTALL_LIBDIR);
  add_folders_of_linker(nullptr, folders);
  Dl_info own{};  // libzero may be part of a library that a program without such a RUNPATH loads
  if (::dladdr(reinterpret_cast<const void*>(&plugin_candidates), &own) != 0)
    add_folders_of_linker(own.dli_fname, folders);
  std::vector<std::string> candidates;
  for (const fs::path& folder : folders) {
    const std::string candidate = (folder / ("libzero_" + name + ".so")).string();
    if (std::ranges::find(candidates, candidate) == candidates.end())
      candidates.push_back(candidate);
  }
  return candidates;
}

}  // namespace zero
