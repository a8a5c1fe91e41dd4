#pragma once

/// Backends that are loaded at run time: a shared object that exports the functions of
/// plugin_abi.h.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"
#include "libzero/collective/plugin_abi.h"

namespace zero {

/// A loaded plug-in. Its code stays mapped until the process ends: the plug-in's libraries may have
/// threads, and thread-local destructors, that outlive every communicator, and unmapping code under
/// a running thread is a crash.
class BackendPlugin {
 public:
  BackendPlugin(std::string path, zero_backend_create_fn create_function);

  const std::string& path() const noexcept { return path_; }
  zero_backend_create_fn create() const noexcept { return create_; }

 private:
  std::string path_;
  zero_backend_create_fn create_;
};

/// Loads the plug-in at `path`; the second form the first of `candidates` (paths) that exists. A
/// file that exists but cannot be loaded is an error, not a reason to try the next one. Throws
/// Unavailable naming every path tried, or what the loader said, or both ABI versions.
std::shared_ptr<const BackendPlugin> load_backend_plugin(const std::string& path);
std::shared_ptr<const BackendPlugin> load_first_backend_plugin(
    const std::vector<std::string>& candidates);

struct PluginConfig {
  std::string backend;  ///< What Collective::backend() returns: "gloo".
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{300'000};  ///< For every wait, connecting included.
  std::string interface_or_host = "127.0.0.1";
  std::shared_ptr<KeyValueStore> store;  ///< Its keys must be this world's own: see with_prefix().
};

/// Joins this rank to the others through the plug-in; blocks until all are there, at most for the
/// timeout. Calls of the result run on the calling thread and have ended when they return. Local
/// mistakes are refused before the plug-in hears of them (check_calls.h). Throws ContractError for
/// a bad config, and what the plug-in reports: CommError, ContractError or Unavailable.
std::shared_ptr<Collective> make_plugin_collective(std::shared_ptr<const BackendPlugin> plugin,
                                                   const PluginConfig& config);

}  // namespace zero
