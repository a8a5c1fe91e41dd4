#include "tests/gloo/world.h"

#include "libzero/collective/plugin.h"

namespace zero::gloo_test {

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout) {
  PluginConfig config;
  config.backend = "gloo";
  config.rank = rank;
  config.size = size;
  config.timeout = timeout;
  config.store = std::move(store);
  return make_plugin_collective(load_backend_plugin(ZERO_GLOO_PLUGIN), config);
}

}  // namespace zero::gloo_test
