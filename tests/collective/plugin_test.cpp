#include "libzero/collective/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/base/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct World {
  std::shared_ptr<KeyValueStore> store = make_memory_store();
  std::shared_ptr<Collective> comm;
};

PluginConfig config_for(const std::shared_ptr<KeyValueStore>& store) {
  PluginConfig config;
  config.backend = "one";
  config.timeout = seconds(10);
  config.interface_or_host = "lo";
  config.store = store;
  return config;
}

World connect() {
  World world;
  world.store->set("plugin/go", "go on!");
  world.comm =
      make_plugin_collective(load_backend_plugin(ZERO_TEST_PLUGIN), config_for(world.store));
  return world;
}

TEST(LoadBackendPlugin, NamesEveryPathThatWasTried) {
  EXPECT_THAT(
      [] {
        load_first_backend_plugin({"/nowhere/a.so", "/nowhere/b.so"});
      },
      ThrowsMessage<Unavailable>(
          AllOf(HasSubstr("/nowhere/a.so, /nowhere/b.so"), HasSubstr("build it"))));
}

TEST(LoadBackendPlugin, TakesTheFirstFileThatExists) {
  EXPECT_EQ(load_first_backend_plugin({"/nowhere/a.so", ZERO_TEST_PLUGIN})->path(),
            ZERO_TEST_PLUGIN);
}

TEST(LoadBackendPlugin, RefusesAnotherAbiVersionAndNamesBoth) {
  EXPECT_THAT([] { load_backend_plugin(ZERO_TEST_OLD_PLUGIN); },
              ThrowsMessage<Unavailable>(
                  AllOf(HasSubstr(ZERO_TEST_OLD_PLUGIN), HasSubstr("ABI version 999"),
                        HasSubstr("has " + std::to_string(ZERO_BACKEND_ABI_VERSION)))));
}

TEST(LoadBackendPlugin, RefusesAFileThatIsNoBackend) {
  EXPECT_THAT([] { load_backend_plugin(ZERO_TEST_NO_PLUGIN); },
              ThrowsMessage<Unavailable>(HasSubstr("zero_backend_abi_version")));
}

TEST(LoadBackendPlugin, SaysWhatTheLoaderSaidAboutAFileThatIsNoSharedObject) {
  EXPECT_THAT(
      [] {
        load_first_backend_plugin({ZERO_TEST_TEXT_FILE, ZERO_TEST_PLUGIN});
      },
      ThrowsMessage<Unavailable>(HasSubstr(ZERO_TEST_TEXT_FILE)));
}

TEST(PluginCollective, GivesThePluginItsHostAndTheStore) {
  const World world = connect();
  EXPECT_EQ(world.store->get("plugin/host", seconds(1)), "lo");
  // The value had 6 bytes, the plug-in had room for 4.
  EXPECT_EQ(world.store->get("plugin/seen", seconds(1)), "6:go o");
  EXPECT_EQ(world.comm->backend(), "one");
}

TEST(PluginCollective, PassesOnTheStoresTimeoutAsCommError) {
  auto config = config_for(make_memory_store());
  config.timeout = milliseconds(5);
  const auto plugin = load_backend_plugin(ZERO_TEST_PLUGIN);
  EXPECT_THAT([&] { make_plugin_collective(plugin, config); },
              ThrowsMessage<CommError>(HasSubstr("plugin/go")));
}

TEST(PluginCollective, PassesOnThatThePluginIsUnavailable) {
  auto config = config_for(make_memory_store());
  config.size = 2;
  const auto plugin = load_backend_plugin(ZERO_TEST_PLUGIN);
  EXPECT_THAT([&] { make_plugin_collective(plugin, config); },
              ThrowsMessage<Unavailable>(HasSubstr("a world of one rank only")));
}

TEST(PluginCollective, RefusesABadConfig) {
  const auto plugin = load_backend_plugin(ZERO_TEST_PLUGIN);
  auto config = config_for(make_memory_store());
  config.rank = 1;
  EXPECT_THROW(make_plugin_collective(plugin, config), ContractError);
  config = config_for(nullptr);
  EXPECT_THROW(make_plugin_collective(plugin, config), ContractError);
  config = config_for(make_memory_store());
  config.timeout = milliseconds(0);
  EXPECT_THROW(make_plugin_collective(plugin, config), ContractError);
  EXPECT_THROW(make_plugin_collective(nullptr, config_for(make_memory_store())), ContractError);
}

TEST(PluginCollective, NamesACodeThatItDoesNotKnow) {
  const World world = connect();
  const WorkPtr work = world.comm->barrier("return an unknown code");
  EXPECT_THAT([&] { work->wait(); },
              ThrowsMessage<CommError>(AllOf(HasSubstr("77"), HasSubstr("surprise"))));
}

TEST(PluginCollective, ChildOutlivesItsParent) {
  World world = connect();
  const auto child = world.comm->split(0, 0);
  world.comm.reset();
  child->barrier("alone")->wait();
  EXPECT_EQ(child->backend(), "one");
}

}  // namespace
}  // namespace zero
