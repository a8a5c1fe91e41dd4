#pragma once

/// N ranks as N threads, each with its own communicator over the Gloo plug-in.

#include "tests/conformance/faults/thread_ranks.h"

namespace zero::gloo_test {

using fault_test::kPatience;

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout);

inline const fault_test::ThreadRanks kRanks{join};

}  // namespace zero::gloo_test
