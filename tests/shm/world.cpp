#include "tests/shm/world.h"

#include "backends/shm/shm.h"

namespace zero::shm_test {

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout) {
  return shm::join({rank, size, timeout, std::move(store)});
}

}  // namespace zero::shm_test
