// Gloo keeps the contract of every Collective.

#include "tests/conformance/collective_conformance.h"
#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

const bool kRegistered = zero::testing::register_collective_conformance(
    {"gloo", [](int size, auto timeout) { return kRanks.make_world(size, timeout); }});

}  // namespace
}  // namespace zero::gloo_test
