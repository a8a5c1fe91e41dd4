/// Options().checksum_every: a replica that has gone astray is named on every rank, and goes no
/// further.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/memory_store.h"
#include "libzero/collective/testing/faults.h"
#include "tests/optim/misuse_support.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Options checked(int stage, std::int64_t every) {
  return tiny_options(stage).checksum_every(every);
}

/// Trains on three ranks; after step 2, rank 1 changes something by hand. What the third step
/// throws, by rank.
std::vector<std::string> third_step_of(int stage, const std::function<void(Tiny& model)>& damage,
                                       std::int64_t every = 1) {
  return errors_on_ranks(3, [&](const Comm& comm) {
    Trainee trainee(comm, checked(stage, every));
    for (std::int64_t step = 0; step < 2; ++step) EXPECT_TRUE(trainee.window(step).applied);
    if (comm->rank() == 1) {
      const torch::NoGradGuard no_grad;
      damage(trainee.model);
    }
    const std::string first = thrown<Error>([&] { trainee.window(2); });
    trainee.optimizer->shutdown();
    if (!first.empty()) throw Error(first);
  });
}

void expect_named(const std::vector<std::string>& errors, const std::string& parameter) {
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    EXPECT_THAT(error, AllOf(HasSubstr("step: the ranks hold different parameters"),
                             HasSubstr("before the update of step 3, parameter " + parameter + ":"),
                             HasSubstr("ranks 0 and 2 hold "), HasSubstr("rank 1 holds ")));
  }
}

class Replicas : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Stage, Replicas, ::testing::Values(0, 1, 2));

TEST_P(Replicas, AHoleInTheMiddleOfOneIsFoundAndNamed) {
  const auto errors = third_step_of(
      GetParam(), [](Tiny& model) { model->large.view({-1}).narrow(0, 2000, 300).zero_(); });
  expect_named(errors, "large");
  EXPECT_THAT(errors[0], Not(HasSubstr("later parameters")));
}

TEST_P(Replicas, AParameterOfOneElementThatIsOffByOneBitIsFoundAndNamed) {
  const auto errors = third_step_of(GetParam(), [](Tiny& model) {
    auto* const bits = static_cast<std::uint32_t*>(model->gain.mutable_data_ptr());
    *bits ^= 1;
  });
  expect_named(errors, "gain");
}

TEST_P(Replicas, OfSeveralTheFirstIsNamedAndTheOthersAreCounted) {
  const auto errors = third_step_of(GetParam(), [](Tiny& model) {
    for (torch::Tensor* tensor : {&model->large, &model->mixed, &model->gain}) tensor->mul_(1.5);
  });
  expect_named(errors, "mixed");
  EXPECT_THAT(errors[0], HasSubstr("; later parameters that differ: 2"));
}

TEST_P(Replicas, ThatAreEqualAreLeftInPeace) {
  on_every_rank(3, [&](const Comm& comm) {
    Trainee trainee(comm, checked(GetParam(), 1));
    for (std::int64_t step = 0; step < 5; ++step) EXPECT_TRUE(trainee.window(step).applied);
    trainee.optimizer->shutdown();
  });
}

TEST_P(Replicas, CheckingChangesNoBit) {
  for (const std::int64_t every : {0, 1}) {
    static Snapshot expected;
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, checked(GetParam(), every));
      for (std::int64_t step = 0; step < 5; ++step) trainee.window(step);
      trainee.optimizer->shutdown();
      if (comm->rank() != 0) return;
      if (every == 0) expected = snapshot(trainee.model);
      expect_same(expected, snapshot(trainee.model));
    });
  }
}

TEST(Replicas, ARankThatHoldsSomethingElseEachIsListedApart) {
  const auto errors = errors_on_ranks(3, [](const Comm& comm) {
    Trainee trainee(comm, checked(2, 1));
    {
      const torch::NoGradGuard no_grad;
      trainee.model->gain.add_(comm->rank());
    }
    const std::string error = thrown<Error>([&] { trainee.window(0); });
    trainee.optimizer->shutdown();
    throw Error(error);
  });
  EXPECT_THAT(errors[2], AllOf(HasSubstr("rank 0 holds "), HasSubstr(", rank 1 holds "),
                               HasSubstr(", rank 2 holds ")));
}

TEST(Replicas, AFrozenParameterIsComparedToo) {
  const auto errors = errors_on_ranks(2, [](const Comm& comm) {
    Tiny model;
    model->mixed.set_requires_grad(false);
    Optimizer optimizer(*model, AdamWOptions(1e-2), checked(2, 1), comm);
    if (comm->rank() == 1) model->mixed[0][3].add_(1);
    optimizer.backward(model->loss(tiny_input(0, comm->rank())));
    const std::string error = thrown<Error>([&] { optimizer.step(); });
    optimizer.shutdown();
    throw Error(error);
  });
  EXPECT_THAT(errors[0], HasSubstr("before the update of step 1, parameter mixed: rank 0 holds"));
  EXPECT_EQ(errors[0], errors[1]);
}

/// Stage 2 overwrites every replica in the update: what is damaged in the gathering itself is seen
/// only afterwards.
TEST(Replicas, WhatTheUpdateLeavesIsComparedToo) {
  const auto errors = errors_on_ranks(2, [](const Comm& comm) {
    Fault fault;
    fault.kind = Fault::Kind::kCorrupt;
    fault.operation = Operation::kAllGather;
    fault.label = "parameters, bucket";
    const Comm faulty = comm->rank() == 1 ? with_faults(comm, {fault}) : comm;
    Trainee trainee(faulty, checked(2, 1));
    const std::string error = thrown<Error>([&] { trainee.window(0); });
    trainee.optimizer->shutdown();
    throw Error(error);
  });
  EXPECT_THAT(errors[0], HasSubstr("after step 1, parameter "));
  EXPECT_EQ(errors[0], errors[1]);
}

TEST(Replicas, AreComparedAfterEveryKthAppliedStepOnly) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm, checked(0, 3));
    {
      const torch::NoGradGuard no_grad;
      if (comm->rank() == 1) trainee.model->gain.add_(1);
    }
    trainee.window(0);
    trainee.window(1);
    EXPECT_THAT(thrown<Error>([&] { trainee.window(2); }), HasSubstr("update of step 3"));
    EXPECT_EQ(trainee.optimizer->steps_applied(), 2);
    trainee.optimizer->shutdown();
  });
}

TEST(Replicas, OnceTheyDifferNothingButALoadGoesOn) {
  const auto store = checkpoint::make_memory_store();
  const auto other = checkpoint::make_memory_store();
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm, checked(2, 1));
    trainee.window(0);
    trainee.optimizer->save(*store);
    const Snapshot saved = snapshot(trainee.model);
    {
      const torch::NoGradGuard no_grad;
      if (comm->rank() == 1) trainee.model->gain.add_(1);
    }
    Optimizer& optimizer = *trainee.optimizer;
    EXPECT_THAT(thrown<Error>([&] { trainee.window(1); }), HasSubstr("parameter gain"));
    EXPECT_EQ(optimizer.steps_taken(), 1);  // nothing was updated
    const auto again = HasSubstr("parameter gain: rank 0 holds ");
    EXPECT_THAT(thrown<Error>([&] { trainee.backward(1); }),
                AllOf(HasSubstr("backward: the ranks hold different"), again));
    EXPECT_THAT(thrown<Error>([&] { optimizer.step(); }),
                AllOf(HasSubstr("step: the ranks hold different"), again));
    EXPECT_THAT(thrown<Error>([&] { optimizer.save(*other); }),
                AllOf(HasSubstr("save: the ranks hold different"), again));
    EXPECT_TRUE(other->list().steps.empty());

    optimizer.load(*store, 1);
    expect_same(saved, snapshot(trainee.model));
    EXPECT_TRUE(trainee.window(1).applied);
    optimizer.save(*other);
    optimizer.shutdown();
  });
}

TEST(Replicas, HowOftenToCompareMustBeSensibleAndTheSameOnEveryRank) {
  for (const std::string& error : errors_on_ranks(
           2, [](const Comm& comm) { Trainee trainee(comm, checked(2, 1 + comm->rank())); })) {
    EXPECT_THAT(error, AllOf(HasSubstr("option checksum_every 2"), HasSubstr("checksum_every 1")));
  }
  for (const std::string& error :
       errors_on_ranks(2, [](const Comm& comm) { Trainee trainee(comm, checked(2, -1)); })) {
    EXPECT_THAT(error, HasSubstr("checksum_every must be at least 0"));
  }
}

}  // namespace
}  // namespace zero::testing
