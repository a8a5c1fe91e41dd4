// Ranks over shared memory that fail, as threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/faults/faults.h"
#include "tests/shm/world.h"

namespace zero::shm_test {
namespace {

const bool kRegistered =
    fault_test::register_thread_faults({"Shm", kRanks, {"rank 0 did not finish joining"}});

// Not of every backend: where bytes travel, those of a rank that leaves in bad order may be lost.
TEST(ShmFailures, WhatAllRanksHaveComeToIsNotLostWithARankThatLeavesThen) {
  // The first to be through leaves in bad order; whoever is still on its way has all it needs.
  for (int round = 0; round < 50; ++round) {
    const auto errors = kRanks.run(4, kPatience, [&](Collective& comm) {
      const std::int64_t each = 5000;  // rows, but less than a rank may be ahead
      const std::vector<float> in(static_cast<std::size_t>(each * comm.size()), 1.0f);
      std::vector<float> out(static_cast<std::size_t>(each));
      comm.reduce_scatter({in.data(), each * comm.size(), DType::kFloat32},
                          {out.data(), each, DType::kFloat32}, {})
          ->wait();
    });
    EXPECT_THAT(errors, ::testing::Each("")) << "round " << round;
  }
}

}  // namespace
}  // namespace zero::shm_test
