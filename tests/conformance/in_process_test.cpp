#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"
#include "libzero/collective/threads.h"
#include "tests/conformance/collective_conformance.h"

namespace {

using zero::testing::register_collective_conformance;

std::vector<std::shared_ptr<zero::Collective>> make_recorded(int size,
                                                             std::chrono::milliseconds timeout) {
  auto ranks = zero::make_threads(size, timeout);
  for (auto& rank : ranks) rank = zero::record_calls(std::move(rank)).collective;
  return ranks;
}

const bool kSelf = register_collective_conformance(
    {"self", [](int, auto) { return std::vector{zero::make_self()}; }, {1}});

const bool kThreads = register_collective_conformance(
    {"threads", [](int size, auto timeout) { return zero::make_threads(size, timeout); }});

// A decorator must keep the whole contract.
const bool kRecorded = register_collective_conformance({"recorder", make_recorded, {2}});

}  // namespace
