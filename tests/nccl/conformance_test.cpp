// NCCL keeps the contract of every Collective, over a machine whose GPUs do everything later.

#include <gtest/gtest.h>

#include "tests/conformance/collective_conformance.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

using zero::testing::register_collective_conformance;

const bool kRegistered = register_collective_conformance(
    {"nccl", [](int size, auto timeout) { return kRanks.make_world(size, timeout); }});

const bool kLight = register_collective_conformance(
    {"nccl_light", [](int size, auto timeout) { return make_light_world(size, timeout); }, {1, 3}});

/// Around every test: delays, and no rule of CUDA or NCCL broken.
class Around : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    Weather::now().reset();
    Weather::now().delay(7, std::chrono::microseconds(200));
  }
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& rule : Weather::now().broken_rules()) ADD_FAILURE() << rule;
  }
};

const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Around);
  return true;
}();

}  // namespace
}  // namespace zero::nccl_test
