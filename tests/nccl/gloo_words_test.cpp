// Words over Gloo, as between machines: the same contract.

#include "tests/conformance/collective_conformance.h"
#include "tests/conformance/faults/faults.h"
#include "tests/gloo/world.h"
#include "tests/nccl/around.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

const fault_test::ThreadRanks kOverGloo{[](int rank, int size,
                                           const std::shared_ptr<KeyValueStore>& store,
                                           std::chrono::milliseconds timeout) {
  return join_beside(gloo_test::join(rank, size, with_prefix(store, "gloo/"), timeout), store,
                     timeout);
}};

const bool kFaults =
    fault_test::register_thread_faults({"NcclOverGloo", kOverGloo, {"ranks 0, 2, 3", "400 ms"}});

const bool kContract = zero::testing::register_collective_conformance(
    {"nccl_over_gloo",
     [](int size, auto timeout) { return kOverGloo.make_world(size, timeout); },
     {3}});

const bool kAround = Around::every_test(std::chrono::microseconds(50));

}  // namespace
}  // namespace zero::nccl_test
