#include "tests/nccl/world.h"

#include <gtest/gtest.h>

#include <thread>

#include "backends/nccl/nccl.h"
#include "backends/shm/shm.h"
#include "libzero/collective/threads.h"
#include "tests/nccl/fake/apis.h"

namespace zero::nccl_test {

std::shared_ptr<Collective> join_beside(std::shared_ptr<Collective> control,
                                        std::shared_ptr<KeyValueStore> store,
                                        std::chrono::milliseconds timeout) {
  nccl::Options options;
  options.apis = fake_apis();
  options.device = control->rank();
  options.control = std::move(control);
  options.store = std::move(store);
  options.timeout = timeout;
  options.scratch_bytes = 0;  // the least: large calls travel in many pieces
  return nccl::join(std::move(options));
}

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout) {
  return join_beside(shm::join({rank, size, timeout, store}), store, timeout);
}

std::vector<std::shared_ptr<Collective>> make_light_world(int size,
                                                          std::chrono::milliseconds timeout,
                                                          std::int64_t scratch_bytes) {
  const auto controls = make_threads(size, timeout);
  const auto store = make_memory_store();
  std::vector<std::shared_ptr<Collective>> ranks(controls.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      try {
        ranks[r] = nccl::join({fake_apis(), controls[r], store, rank, timeout, scratch_bytes});
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " cannot join: " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

}  // namespace zero::nccl_test
