#pragma once

/// N ranks as N threads, each with its own mapping of the memory that they share.

#include "tests/conformance/faults/thread_ranks.h"

namespace zero::shm_test {

using fault_test::kPatience;

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout);

inline const fault_test::ThreadRanks kRanks{join};

}  // namespace zero::shm_test
