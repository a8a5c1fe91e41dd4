/// A schedule drives LibTorch's optimizers and the sharded one, and goes on after a resume.

#include "libzero/train/learning_rate.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;

torch::Tensor parameter() {
  return torch::ones({2}, torch::requires_grad());
}

torch::optim::SGD two_groups() {
  torch::optim::SGD sgd({parameter()}, torch::optim::SGDOptions(1.0));
  sgd.add_param_group(torch::optim::OptimizerParamGroup(
      {parameter()}, std::make_unique<torch::optim::SGDOptions>(0.5)));
  return sgd;
}

std::vector<double> rates_of(torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

TEST(LearningRate, SetsEveryGroupsRateFromItsOwnPeak) {
  auto sgd = two_groups();
  LearningRate rate(sgd, Schedule::linear(4));
  EXPECT_THAT(rates_of(sgd), ElementsAre(0.75, 0.375));
  rate.step();
  EXPECT_THAT(rates_of(sgd), ElementsAre(0.5, 0.25));
  EXPECT_EQ(rate.applied(), 1);
  rate.go_to(3);
  EXPECT_THAT(rates_of(sgd), ElementsAre(0, 0));
  rate.go_to(0);
  EXPECT_THAT(rates_of(sgd), ElementsAre(0.75, 0.375));
}

TEST(LearningRate, AScheduleForEachGroup) {
  auto sgd = two_groups();
  LearningRate rate(sgd, {Schedule::constant(), Schedule::linear(2)});
  EXPECT_THAT(rates_of(sgd), ElementsAre(1, 0.25));
  EXPECT_THAT(thrown<ContractError>([&] { LearningRate(sgd, std::vector{Schedule::constant()}); }),
              HasSubstr("1 schedules, 2 groups"));
}

/// The checkpoint's group options hold the rate that was reached, which must not become the peak.
TEST(LearningRate, GoesOnAfterAResumeThatRestoredTheDecayedRate) {
  auto sgd = two_groups();
  LearningRate first(sgd, Schedule::linear(4));
  first.step();
  first.step();
  TrainerState saved;
  first.save(saved);

  auto resumed = two_groups();
  for (auto& group : resumed.param_groups()) group.options().set_lr(0.123);
  LearningRate second(resumed, Schedule::linear(4));
  second.load(saved);
  EXPECT_EQ(second.applied(), 2);
  EXPECT_THAT(rates_of(resumed), ElementsAre(0.25, 0.125));
}

TEST(LearningRate, CountersThatAreNoneOfItsOwnAreRefusedAndNothingChanges) {
  auto sgd = two_groups();
  LearningRate rate(sgd, Schedule::linear(4));
  TrainerState good;
  rate.save(good);
  const auto refused = [&](const std::string& key, std::optional<std::int64_t> value) {
    TrainerState state = good;
    state.counters.erase(key);
    if (value) state.counters[key] = *value;
    const std::string message = thrown<ContractError>([&] { rate.load(state); });
    EXPECT_THAT(rates_of(sgd), ElementsAre(0.75, 0.375));
    return message;
  };
  EXPECT_THAT(refused("schedule.applied", {}), HasSubstr("schedule.applied"));
  EXPECT_THAT(refused("schedule.applied", -1), HasSubstr("must not be negative: -1"));
  EXPECT_THAT(refused("schedule.peak.1", {}), HasSubstr("schedule.peak.1"));
  EXPECT_THAT(refused("schedule.peak.1", -1), HasSubstr("no learning rate: schedule.peak.1"));
  EXPECT_THAT(refused("schedule.peak.2", 0), HasSubstr("more parameter groups"));
}

TEST(LearningRate, DrivesTheShardedOptimizerByItsAppliedSteps) {
  const auto weight = parameter();
  Optimizer optimizer({{"w", weight}}, {}, AdamWOptions(1.0).weight_decay(0), Options(),
                      make_self());
  LearningRate rate(optimizer, Schedule::linear(4));
  std::vector<double> used;
  for (const float factor : {1.0f, std::numeric_limits<float>::infinity(), 1.0f}) {
    used.push_back(rates_of(optimizer)[0]);
    optimizer.backward((weight * factor).sum());
    if (optimizer.step().applied) rate.step();
  }
  EXPECT_THAT(used, ElementsAre(0.75, 0.5, 0.5)) << "the skipped step counts for nothing";
  EXPECT_EQ(rate.applied(), optimizer.steps_applied());
  // Adam's first two updates of a constant gradient are the rate itself.
  EXPECT_NEAR(weight[0].item<double>(), 1 - 0.75 - 0.5, 1e-4);
  optimizer.shutdown();
}

}  // namespace
}  // namespace zero
