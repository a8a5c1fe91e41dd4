#include "libzero/collective/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

// DEEPBIND makes the plug-in prefer its own libraries' symbols to those that the program already
// has (LibTorch exports another Gloo). Sanitizer runtimes refuse it, so that the build decides: see
// CMakeLists.txt.
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | (ZERO_PLUGIN_DEEPBIND ? RTLD_DEEPBIND : 0);

std::string loader_message() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

std::string first_existing(const std::vector<std::string>& candidates) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    std::error_code ignored;
    if (std::filesystem::exists(candidate, ignored)) {
      return std::filesystem::absolute(candidate).string();
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  throw Unavailable(
      "load_backend_plugin: there is no such plug-in; build it, or name its folder in "
      "ZERO_PLUGIN_PATH: tried " +
      (tried.empty() ? "no path at all" : tried));
}

void* symbol(void* library, const std::string& path, const char* name) {
  void* address = dlsym(library, name);
  if (address != nullptr) return address;
  throw Unavailable(
      "load_backend_plugin: this file is no libzero backend, it lacks a function; check the "
      "path: " +
      path + ", " + name + ": " + loader_message());
}

void check_version(const std::string& path, std::int32_t version) {
  if (version == ZERO_BACKEND_ABI_VERSION) return;
  throw Unavailable("load_backend_plugin: the plug-in was built for another libzero; rebuild it: " +
                    path + ", ABI version " + std::to_string(version) + ", this libzero has " +
                    std::to_string(ZERO_BACKEND_ABI_VERSION));
}

}  // namespace

BackendPlugin::BackendPlugin(std::string path, zero_backend_create_fn create_function)
    : path_(std::move(path)), create_(create_function) {}

std::shared_ptr<const BackendPlugin> load_first_backend_plugin(
    const std::vector<std::string>& candidates) {
  const std::string path = first_existing(candidates);
  void* library = dlopen(path.c_str(), kOpenFlags);
  if (library == nullptr) {
    throw Unavailable("load_backend_plugin: the plug-in does not load; install what it needs: " +
                      loader_message());
  }
  const auto version = reinterpret_cast<zero_backend_abi_version_fn>(
      symbol(library, path, "zero_backend_abi_version"));
  check_version(path, version());
  const auto create =
      reinterpret_cast<zero_backend_create_fn>(symbol(library, path, "zero_backend_create"));
  // The handle is dropped on purpose and never closed: see BackendPlugin.
  return std::make_shared<BackendPlugin>(path, create);
}

std::shared_ptr<const BackendPlugin> load_backend_plugin(const std::string& path) {
  return load_first_backend_plugin({path});
}

}  // namespace zero
