// Ranks over NCCL that fail, as threads.

#include "tests/conformance/faults/faults.h"
#include "tests/nccl/around.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

const bool kRegistered =
    fault_test::register_thread_faults({"Nccl", kRanks, {"rank 0 did not finish joining"}});

const bool kAround = Around::every_test(std::chrono::microseconds(50));

}  // namespace
}  // namespace zero::nccl_test
