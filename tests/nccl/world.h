#pragma once

/// N ranks as N threads, each with a GPU of the fake machine; words go over shared memory.

#include "tests/conformance/faults/thread_ranks.h"
#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {

/// One rank whose words go over `control`.
std::shared_ptr<Collective> join_beside(std::shared_ptr<Collective> control,
                                        std::shared_ptr<KeyValueStore> store,
                                        std::chrono::milliseconds timeout);

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout);

inline const fault_test::ThreadRanks kRanks{join};

/// Words go over `threads`: quicker to make, and ThreadSanitizer sees all of it.
std::vector<std::shared_ptr<Collective>> make_light_world(int size,
                                                          std::chrono::milliseconds timeout,
                                                          std::int64_t scratch_bytes = 0);

}  // namespace zero::nccl_test
