#include <limits>

#include "tests/optim/misuse_support.h"

// Windows begun, ended, broken off and repeated in ways that nobody should, and that somebody will.

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Passes its input on; its backward throws std::domain_error.
struct Thrower : torch::autograd::Function<Thrower> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::domain_error("thrown in backward");
  }
};

/// By then the gradients of `large`, `gain` and `mixed` have arrived, those of `first` and `bias`
/// never do.
torch::Tensor throwing_loss(Trainee& trainee, std::int64_t step) {
  return trainee.model->loss_of(Thrower::apply(trainee.model->hidden(tiny_input(step, 0))));
}

TEST(Window, AStepWithoutBackwardThrowsOnEveryRankAndLeavesNoTrace) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto step = [&] { trainee.optimizer->step(); };
    EXPECT_THAT(thrown<ContractError>(step), HasSubstr("call backward() first"));
    EXPECT_THAT(thrown<ContractError>(step), HasSubstr("call backward() first"));
  });
}

TEST(Window, TheVeryFirstStepWithoutBackwardThrows) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("call backward() first"));
    EXPECT_TRUE(trainee.window(0).applied);
    trainee.optimizer->shutdown();
  });
}

TEST(Window, EveryCallAfterShutdownThrowsButShutdownAgainIsFine) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    trainee.window(0);
    Optimizer& optimizer = *trainee.optimizer;
    optimizer.shutdown();
    optimizer.shutdown();
    const auto refused = HasSubstr("after shutdown()");
    EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(1); }), refused);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.step(); }), refused);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.zero_grad(); }), refused);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.refresh_masters(); }), refused);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.gather("first", StateKind::kExpAvg); }),
                refused);
    EXPECT_THAT(thrown<ContractError>(
                    [&] { optimizer.for_each_shard(StateKind::kExpAvg, [](const ShardView&) {}); }),
                refused);
    EXPECT_EQ(optimizer.steps_applied(), 1);
    EXPECT_GT(optimizer.memory().total(), 0);
  });
}

TEST(Window, DifferentNumbersOfCallsThrowOnEveryRankWithBothCounts) {
  for (const int world_size : {2, 3}) {
    expect_no_trace(world_size, [](Trainee& trainee) {
      const Stopwatch watch;
      const std::string error = thrown<ContractError>([&] {
        trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
        if (trainee.comm->rank() == 1)
          trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 1)));
        trainee.optimizer->step();
      });
      EXPECT_THAT(error, AllOf(HasSubstr("backward call 2 of step 2"),
                               HasSubstr("step 2 after 1 backward call")));
      EXPECT_LT(watch.elapsed(), kPrompt);
    });
  }
}

TEST(Window, ARankWithoutAnyCallThrowsOnEveryRankWithBothCounts) {
  expect_no_trace(2, [](Trainee& trainee) {
    const Stopwatch watch;
    const std::string error = thrown<ContractError>([&] {
      if (trainee.comm->rank() == 1)
        trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 1)));
      trainee.optimizer->step();
    });
    EXPECT_THAT(error, AllOf(HasSubstr("backward call 1 of step 2"),
                             HasSubstr("step 2 after 0 backward calls")));
    EXPECT_LT(watch.elapsed(), kPrompt);
  });
}

TEST(Window, OneRankDropsItsWindowAloneAndEveryRankThrowsInTheNextStep) {
  expect_no_trace(2, [](Trainee& trainee) {
    const std::string error = thrown<ContractError>([&] {
      trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
      if (trainee.comm->rank() == 1) trainee.optimizer->zero_grad();
      trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 1)));
      trainee.optimizer->step();
    });
    EXPECT_THAT(error,
                AllOf(HasSubstr("after 1 backward call"), HasSubstr("after 2 backward calls")));
  });
}

TEST(Window, DifferentNumbersOfCallsThenZeroGradThrowInTheNextWindowAndNoLater) {
  expect_no_trace(2, [](Trainee& trainee) {
    for (int call = 0; call <= trainee.comm->rank(); ++call) {
      trainee.optimizer->backward(trainee.model->loss(tiny_input(7, call)));
    }
    const std::string error = thrown<ContractError>([&] {
      trainee.optimizer->zero_grad();
      trainee.window(8);
    });
    EXPECT_THAT(error, HasSubstr("backward call"));
  });
}

TEST(Window, ALossOfNaNOnOneRankIsSkippedOnEveryRank) {
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    const Snapshot expected = without_accident(2, dtype);
    for (const int stage : {0, 1, 2}) {
      on_every_rank(2, [&](const Comm& comm) {
        // A small scale: one halving of it must not change the bits of the steps that follow.
        Options options = tiny_options(stage);
        Trainee trainee(comm, options, dtype);
        trainee.window(0);
        auto loss = trainee.model->loss(tiny_input(7, 0));
        if (comm->rank() == 1) loss = loss * std::numeric_limits<float>::quiet_NaN();
        trainee.optimizer->backward(loss);
        const StepResult result = trainee.optimizer->step();
        EXPECT_FALSE(result.applied);
        EXPECT_TRUE(std::isnan(result.loss));
        EXPECT_EQ(result.overflow_parameter, "first");
        EXPECT_EQ(result.step, 1);
        EXPECT_EQ(result.next_loss_scale, dtype == torch::kHalf ? 32768 : 1);
        EXPECT_TRUE(trainee.window(1).applied);
        if (dtype != torch::kHalf) expect_same(expected, snapshot(trainee.model));
        for (const auto& [name, value] : snapshot(trainee.model))
          EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
        trainee.optimizer->shutdown();
      });
    }
  }
}

TEST(Window, AnInfiniteGradientInALaterMicroBatchOnlyIsSkippedOnEveryRank) {
  expect_no_trace(2, [](Trainee& trainee) {
    trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
    auto loss = trainee.model->loss(tiny_input(7, 1));
    if (trainee.comm->rank() == 1) loss = loss + (trainee.model->gain * 1e30).sum() * 1e30;
    trainee.optimizer->backward(loss);
    const StepResult result = trainee.optimizer->step();
    EXPECT_FALSE(result.applied);
    EXPECT_EQ(result.overflow_parameter, "gain");
    EXPECT_THAT(result.reason, HasSubstr("gain"));
    EXPECT_EQ(result.consecutive_skips, 1);
  });
}

TEST(Window, AnExceptionOfTheUserThenZeroGradLeavesNoTrace) {
  expect_no_trace(2, [](Trainee& trainee) {
    try {
      trainee.backward(7, 2);
      throw std::runtime_error("the user's");
    } catch (const std::runtime_error&) {
      trainee.optimizer->zero_grad();
    }
  });
}

TEST(Window, WithoutZeroGradTheWindowGoesOn) {
  Snapshot expected;
  on_every_rank(1, [&](const Comm& comm) {
    Trainee trainee(comm, tiny_options(0));
    trainee.backward(7, 2);
    trainee.backward(8, 2);
    EXPECT_EQ(trainee.optimizer->step().weight, 4);
    expected = snapshot(trainee.model);
  });
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      try {
        trainee.backward(7, 2);
        throw std::runtime_error("the user's");
      } catch (const std::runtime_error&) {
      }
      trainee.backward(8, 2);
      EXPECT_EQ(trainee.optimizer->step().weight, 4);
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

TEST(Window, AnExceptionInAutogradOnOneRankPassesThroughAndEveryRankThrowsInStep) {
  expect_no_trace(2, [](Trainee& trainee) {
    if (trainee.comm->rank() == 1) {
      const auto backward = [&] { trainee.optimizer->backward(throwing_loss(trainee, 7)); };
      EXPECT_THAT(thrown<std::domain_error>(backward), HasSubstr("thrown in backward"));
    } else {
      trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
    }
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                AllOf(HasSubstr("a backward call threw"), HasSubstr("rank 1")));
  });
}

TEST(Window, AnExceptionInAutogradThenZeroGradLeavesNoTrace) {
  for (const bool everywhere : {true, false}) {
    for (const bool defer : {true, false}) {
      const auto accident = [&](Trainee& trainee) {
        if (everywhere || trainee.comm->rank() == 1) {
          thrown<std::domain_error>(
              [&] { trainee.optimizer->backward(throwing_loss(trainee, 7)); });
        } else {
          trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
        }
        trainee.optimizer->zero_grad();
      };
      expect_no_trace(2, accident, [&](Options& options) { options.defer_reduction(defer); });
    }
  }
}

TEST(Window, LossesThatAreNoLossAreRefusedAndNotCounted) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto refusal = [&](const torch::Tensor& loss) {
      return thrown<ContractError>([&] { trainee.optimizer->backward(loss); });
    };
    EXPECT_THAT(refusal(torch::Tensor()), HasSubstr("one floating-point number"));
    EXPECT_THAT(refusal(trainee.model->bias * 2), HasSubstr("one floating-point number"));
    EXPECT_THAT(refusal(torch::tensor(3)), HasSubstr("one floating-point number"));
    EXPECT_THAT(refusal(torch::tensor(3.0f)), HasSubstr("does not depend on a parameter"));
    EXPECT_THAT(thrown<ContractError>([&] {
                  trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)), -3);
                }),
                HasSubstr("-3"));
    const auto huge = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(thrown<ContractError>([&] {
                  trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)), huge);
                }),
                HasSubstr(std::to_string(huge)));
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("call backward() first"));
  });
}

TEST(Window, WeightsThatAddUpToZeroThrowOnEveryRank) {
  expect_no_trace(2, [](Trainee& trainee) {
    trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)), 0);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("add up to 0"));
  });
}

TEST(Window, ACallOfWeightZeroCountsForNothing) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    trainee.optimizer->backward(trainee.model->loss(tiny_input(comm->rank() == 0 ? 0 : 9, 0)),
                                comm->rank() == 0 ? 3 : 0);
    const StepResult result = trainee.optimizer->step();
    EXPECT_EQ(result.weight, 3);
    Trainee alone(make_threads(1, std::chrono::seconds(60)).front());
    alone.optimizer->backward(alone.model->loss(tiny_input(0, 0)), 3);
    EXPECT_EQ(alone.optimizer->step().loss, result.loss);
    expect_same(snapshot(alone.model), snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST(Window, TheMeanIsOverWeightsWhateverTheyAre) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    trainee.optimizer->backward(trainee.model->bias.sum() * (comm->rank() == 0 ? 2 : 5),
                                comm->rank() == 0 ? 1 : 3);
    trainee.optimizer->step();
    const auto mean = trainee.optimizer->gather("bias", StateKind::kGradient);
    EXPECT_TRUE(torch::equal(mean, torch::full({5}, (2.0f + 3 * 5) / 4)));
    trainee.optimizer->shutdown();
  });
}

TEST(Window, BackwardTwiceOverOneGraphIsLibTorchsErrorAndTheOptimizerSurvives) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto loss = trainee.model->loss(tiny_input(7, 0));
    trainee.optimizer->backward(loss);
    EXPECT_THAT(thrown<c10::Error>([&] { trainee.optimizer->backward(loss); }),
                HasSubstr("backward through the graph a second time"));
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("a backward call threw"));
  });
}

TEST(Window, BackwardWorksWhereGradientsAreSwitchedOff) {
  const Snapshot expected = without_accident(1);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    for (std::int64_t i = comm->rank(); i < 6; i += 2) {
      const auto loss = trainee.model->loss(tiny_input(0, i));
      const torch::NoGradGuard no_grad;
      trainee.optimizer->backward(loss, 2);
    }
    EXPECT_TRUE(trainee.optimizer->step().applied);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST(Window, AStepWithAClosureRunsItsBackward) {
  const Snapshot expected = without_accident(1);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    const torch::NoGradGuard no_grad;
    trainee.optimizer->step([&] {
      trainee.backward(0);
      return torch::tensor(1.0f);
    });
    expect_same(expected, snapshot(trainee.model));
    EXPECT_THAT(
        thrown<ContractError>([&] { trainee.optimizer->step([] { return torch::tensor(1.0f); }); }),
        HasSubstr("call backward() first"));
    trainee.optimizer->shutdown();
  });
}

TEST(Window, AnUnknownNameInGatherLosesNoGradient) {
  const Snapshot expected = without_accident(1);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    trainee.backward(0);
    EXPECT_THAT(
        thrown<ContractError>([&] { trainee.optimizer->gather("no such", StateKind::kExpAvg); }),
        HasSubstr("no such"));
    trainee.optimizer->step();
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST(Groups, OptionsThatDifferBetweenRanksThrowOnEveryRank) {
  expect_no_trace(2, [](Trainee& trainee) {
    auto& options = trainee.optimizer->param_groups()[0].options();
    if (trainee.comm->rank() == 1) options.set_lr(5e-2);
    trainee.backward(7, 2);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                AllOf(HasSubstr("lr"), HasSubstr("rank 1")));
    options.set_lr(1e-2);
  });
}

TEST(Groups, OptionsOutOfRangeOnOneRankThrowOnEveryRank) {
  expect_no_trace(2, [](Trainee& trainee) {
    auto& options = trainee.optimizer->param_groups()[0].options();
    if (trainee.comm->rank() == 1) options.set_lr(std::numeric_limits<double>::quiet_NaN());
    trainee.backward(7, 2);
    const std::string error = thrown<ContractError>([&] { trainee.optimizer->step(); });
    EXPECT_THAT(error,
                trainee.comm->rank() == 1 ? HasSubstr("lr must be finite") : HasSubstr("rank 1"));
    options.set_lr(1e-2);
  });
}

TEST(Groups, AGroupAddedOrTakenAwayIsRefused) {
  on_every_rank(1, [](const Comm& comm) {
    Trainee trainee(comm);
    trainee.backward(0);
    const auto extra = torch::zeros({2}, torch::requires_grad());
    trainee.optimizer->add_param_group({std::vector<torch::Tensor>{extra}});
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("parameter groups"));
    trainee.optimizer->param_groups().clear();
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("parameter groups"));
  });
}

TEST(Skips, TooManyInARowThrowOnEveryRankInTheSameStepAndTheScaleStaysAtItsMinimum) {
  on_every_rank(2, [](const Comm& comm) {
    Options options = tiny_options(2);
    LossScalerOptions scaler;
    scaler.initial_scale = 4;
    scaler.max_consecutive_skips = 4;
    options.loss_scaler(scaler);
    Trainee trainee(comm, options, torch::kHalf);
    const Snapshot before = snapshot(trainee.model);
    std::vector<double> scales;
    std::string error;
    for (std::int64_t step = 0; step < 4; ++step) {
      auto loss = trainee.model->loss(tiny_input(step, comm->rank()));
      if (comm->rank() == 1) loss = loss * std::numeric_limits<float>::infinity();
      trainee.optimizer->backward(loss);
      if (step < 3) {
        scales.push_back(trainee.optimizer->step().next_loss_scale);
      } else {
        error = thrown<Error>([&] { trainee.optimizer->step(); });
      }
    }
    EXPECT_EQ(scales, (std::vector<double>{2, 1, 1}));
    EXPECT_THAT(error, AllOf(HasSubstr("max_consecutive_skips"), HasSubstr("4")));
    EXPECT_EQ(trainee.optimizer->loss_scale(), 1);
    expect_same(before, snapshot(trainee.model));
    EXPECT_TRUE(trainee.window(0).applied);
    trainee.optimizer->shutdown();
  });
}

}  // namespace
}  // namespace zero::testing
