// Ranks over Gloo that fail, as threads.

#include "tests/conformance/faults/faults.h"
#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

const bool kRegistered =
    fault_test::register_thread_faults({"Gloo", kRanks, {"ranks 0, 2, 3", "400 ms"}});

}  // namespace
}  // namespace zero::gloo_test
