// Shared memory keeps the contract of every Collective.

#include "tests/conformance/collective_conformance.h"
#include "tests/shm/one_mapping.h"
#include "tests/shm/world.h"

namespace zero::shm_test {
namespace {

using zero::testing::register_collective_conformance;

const bool registered = register_collective_conformance(
    {"shm",
     [](int size, auto timeout) { return kRanks.make_world(size, timeout); },
     {1, 2, 3, 5, 8}});

// For ThreadSanitizer, and as quick elsewhere.
const bool one_mapping =
    register_collective_conformance({"shm_one_mapping", make_world_on_one_mapping, {3}});

}  // namespace
}  // namespace zero::shm_test
