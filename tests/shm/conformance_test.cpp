// Shared memory keeps the contract of every Collective.

#include "tests/conformance/collective_conformance.h"
#include "tests/shm/world.h"

namespace zero::shm_test {
namespace {

const bool kRegistered =
    zero::testing::register_collective_conformance({"shm", make_world, {1, 2, 3, 5, 8}});

}  // namespace
}  // namespace zero::shm_test
