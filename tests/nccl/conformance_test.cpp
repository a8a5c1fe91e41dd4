// NCCL keeps the contract of every Collective, over a machine whose GPUs do everything later.

#include "tests/conformance/collective_conformance.h"
#include "tests/nccl/around.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

using zero::testing::register_collective_conformance;

const bool kRegistered = register_collective_conformance(
    {"nccl", [](int size, auto timeout) { return kRanks.make_world(size, timeout); }});

const bool kLight = register_collective_conformance(
    {"nccl_light", [](int size, auto timeout) { return make_light_world(size, timeout); }, {1, 3}});

const bool kAround = Around::every_test(std::chrono::microseconds(200));

}  // namespace
}  // namespace zero::nccl_test
