#include "libzero/collective/self.h"
#include "libzero/collective/threads.h"
#include "tests/conformance/collective_conformance.h"

namespace {

using zero::testing::register_collective_conformance;

const bool kSelf = register_collective_conformance(
    {"self", [](int, auto) { return std::vector{zero::make_self()}; }, {1}});

const bool kThreads = register_collective_conformance(
    {"threads", [](int size, auto timeout) { return zero::make_threads(size, timeout); }});

}  // namespace
