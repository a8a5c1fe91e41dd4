#include "libzero/collective/plugin.h"
#include "tests/conformance/collective_conformance.h"

namespace {

std::vector<std::shared_ptr<zero::Collective>> make(int size, std::chrono::milliseconds timeout) {
  zero::PluginConfig config;
  config.backend = "plugin";
  config.size = size;
  config.timeout = timeout;
  config.store = zero::make_memory_store();
  config.store->set("plugin/go", "go");
  return {zero::make_plugin_collective(zero::load_backend_plugin(ZERO_TEST_PLUGIN), config)};
}

const bool kPlugin = zero::testing::register_collective_conformance({"plugin", make, {1}});

}  // namespace
