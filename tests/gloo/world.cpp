#include "tests/gloo/world.h"

#include <gtest/gtest.h>

#include <thread>

#include "libzero/base/error.h"
#include "libzero/collective/plugin.h"

namespace zero::gloo_test {
namespace {

std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const ContractError*>(&error) != nullptr) return "ContractError: ";
  if (dynamic_cast<const CommError*>(&error) != nullptr) return "CommError: ";
  return "unexpected error: ";
}

}  // namespace

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

std::vector<std::string> run_ranks(int size, std::chrono::milliseconds timeout,
                                   const std::function<void(Collective&)>& body) {
  const auto store = make_memory_store();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*join(rank, size, store, timeout));
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = kind_of(error) + error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void run_in_peace(int size, const std::function<void(Collective&)>& body) {
  const auto errors = run_ranks(size, kPatience, [&](Collective& comm) {
    body(comm);
    comm.shutdown();
  });
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)], "") << "rank " << rank << " of " << size;
  }
}

}  // namespace zero::gloo_test
