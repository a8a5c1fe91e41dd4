#include <atomic>

#include "libzero/collective/recorder.h"
#include "tests/optim/misuse_support.h"

namespace zero::testing {
namespace {

TEST(StopAgreement, EveryRankHearsOneRanksRequestAtTheSameStep) {
  for (const int stage : {0, 1, 2}) {
    for (int asking = 0; asking < 3; ++asking) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", rank " + std::to_string(asking) + " asks");
      on_every_rank(3, [&](const Comm& comm) {
        Trainee trainee(comm, tiny_options(stage));
        EXPECT_FALSE(trainee.window(0).stop_requested);
        trainee.backward(1);
        if (comm->rank() == asking) trainee.optimizer->request_stop();
        EXPECT_TRUE(trainee.optimizer->step().stop_requested);
        EXPECT_TRUE(trainee.window(2).stop_requested) << "the request stays";
        trainee.optimizer->shutdown();
      });
    }
  }
}

TEST(StopAgreement, ARequestChangesNoBit) {
  const Snapshot expected = without_accident(3);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    if (comm->rank() == 1) trainee.optimizer->request_stop();
    for (std::int64_t step = 0; step < 3; ++step) EXPECT_TRUE(trainee.window(step).applied);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST(StopAgreement, AStepThatThrowsLosesNoRequest) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    if (comm->rank() == 1) trainee.optimizer->request_stop();
    EXPECT_THROW(trainee.optimizer->step(), ContractError);  // no backward
    EXPECT_TRUE(trainee.window(0).stop_requested);
    trainee.optimizer->shutdown();
  });
}

TEST(StopAgreement, ASkippedStepPassesTheRequestOn) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    if (comm->rank() == 0) trainee.optimizer->request_stop();
    const float factor = comm->rank() == 1 ? INFINITY : 1.0F;
    trainee.optimizer->backward(trainee.model->loss(tiny_input(0, 0)) * factor);
    const StepResult result = trainee.optimizer->step();
    EXPECT_FALSE(result.applied);
    EXPECT_TRUE(result.stop_requested);
    trainee.optimizer->shutdown();
  });
}

TEST(StopAgreement, AnyThreadMayAskAtAnyTimeAndAllRanksLeaveAfterTheSameStep) {
  std::vector<std::int64_t> left(3, -1);
  on_every_rank(3, [&](const Comm& comm) {
    Trainee trainee(comm);
    std::atomic<std::int64_t> steps = 0;
    std::thread asking([&] {
      if (comm->rank() != 2) return;
      steps.wait(0);
      trainee.optimizer->request_stop();
    });
    for (std::int64_t step = 0; step < 1000; ++step) {  // ends, whatever happens
      const bool stop = trainee.window(step).stop_requested;
      left[static_cast<std::size_t>(comm->rank())] = step;
      steps = step + 1;
      steps.notify_all();
      if (stop) break;
    }
    asking.join();
    trainee.optimizer->shutdown();
  });
  EXPECT_GE(left[0], 1);
  EXPECT_LT(left[0], 999);
  EXPECT_EQ(left[1], left[0]);
  EXPECT_EQ(left[2], left[0]);
}

TEST(StopAgreement, CostsNoCollectiveOfItsOwn) {
  for (const bool asks : {false, true}) {
    on_every_rank(2, [&](const Comm& comm) {
      const Recorded recorded = record_calls(comm);
      Trainee trainee(recorded.collective);
      trainee.backward(0);
      const std::int64_t before = recorded.log->of(Operation::kAllGather).calls;
      if (asks) trainee.optimizer->request_stop();
      EXPECT_EQ(trainee.optimizer->step().stop_requested, asks);
      trainee.optimizer->shutdown();
      const auto buckets = static_cast<std::int64_t>(trainee.optimizer->layout().buckets().size());
      EXPECT_EQ(recorded.log->of(Operation::kAllGather).calls - before, 1 + buckets);
    });
  }
}

}  // namespace
}  // namespace zero::testing
