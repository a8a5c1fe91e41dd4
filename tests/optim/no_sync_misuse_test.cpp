// no_sync() used as nobody should, and as somebody will.

#include "tests/optim/misuse_support.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void allow(Options& options) {
  options.deterministic(false);
}

template <typename Accident>
void expect_no_trace_where_allowed(int world_size, Accident accident) {
  expect_no_trace(world_size, accident, allow);
}

void call(Trainee& trainee, std::int64_t micro) {
  trainee.optimizer->backward(trainee.model->loss(tiny_input(7, micro)));
}

void held_call(Trainee& trainee, std::int64_t micro) {
  const auto scope = trainee.optimizer->no_sync();
  call(trainee, micro);
}

/// 'h' and 'r': a call inside no_sync() and one outside.
void calls(Trainee& trainee, const std::string& pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto micro = static_cast<std::int64_t>(i);
    pattern[i] == 'h' ? held_call(trainee, micro) : call(trainee, micro);
  }
}

TEST(NoSyncMisuse, IsRefusedWhereTheOrderOfSumsIsPromised) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto ask = [&] { const auto scope = trainee.optimizer->no_sync(); };
    EXPECT_THAT(thrown<ContractError>(ask), HasSubstr("Options().deterministic(false)"));
  });
}

TEST(NoSyncMisuse, RanksThatDoNotAgreeAboutTheOrderAreRefusedAtConstruction) {
  const auto errors = errors_on_ranks(2, [](const Comm& comm) {
    Trainee trainee(comm, tiny_options(2).deterministic(comm->rank() == 0));
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("option deterministic"));
}

TEST(NoSyncMisuse, AStepWithAnUnreducedRestThrowsOnEveryRankAndLeavesNoTrace) {
  for (const std::string pattern : {"h", "rh", "hrhh"}) {
    SCOPED_TRACE(pattern);
    expect_no_trace_where_allowed(2, [&](Trainee& trainee) {
      calls(trainee, pattern);
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                  AllOf(HasSubstr("inside no_sync()"), HasSubstr("not reduced")));
    });
  }
}

TEST(NoSyncMisuse, DifferentPatternsThrowOnEveryRankSoonAndLeaveNoTrace) {
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {"hr", "rh"}, {"hr", "rr"}, {"hrr", "rhr"}, {"hr", "r"}, {"rrh", "rrr"}, {"h", "r"}};
  for (const auto& [first, second] : patterns) {
    SCOPED_TRACE(first + " and " + second);
    expect_no_trace_where_allowed(2, [&, first = first, second = second](Trainee& trainee) {
      const Stopwatch watch;
      const std::string error = thrown<ContractError>([&] {
        calls(trainee, trainee.comm->rank() == 0 ? first : second);
        trainee.optimizer->step();
      });
      EXPECT_THAT(error, HasSubstr("no_sync()"));
      EXPECT_LT(watch.elapsed(), kPrompt);
    });
  }
}

TEST(NoSyncMisuse, ZeroGradDropsWhatIsHeld) {
  expect_no_trace_where_allowed(2, [](Trainee& trainee) {
    calls(trainee, "hrh");
    trainee.optimizer->zero_grad();
  });
}

TEST(NoSyncMisuse, AModulesZeroGradLosesNothing) {
  std::vector<Snapshot> results;
  for (const bool interfere : {false, true}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(2).deterministic(false));
      held_call(trainee, comm->rank());
      if (interfere) trainee.model->zero_grad();
      held_call(trainee, 2 + comm->rank());
      if (interfere) trainee.model->zero_grad();
      call(trainee, 4 + comm->rank());
      EXPECT_EQ(trainee.optimizer->step().weight, 6);
      if (comm->rank() == 0) results.push_back(snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
  expect_same(results[0], results[1]);
}

TEST(NoSyncMisuse, AModulesZeroGradThatWritesWhatIsHeldIsRefused) {
  expect_no_trace_where_allowed(1, [](Trainee& trainee) {
    held_call(trainee, 0);
    trainee.model->zero_grad(/*set_to_none=*/false);
    EXPECT_THAT(thrown<ContractError>([&] { call(trainee, 1); }),
                AllOf(HasSubstr("no_sync()"), HasSubstr("zero_grad"), HasSubstr("parameter")));
    trainee.optimizer->zero_grad();
  });
}

TEST(NoSyncMisuse, AnExceptionInAHeldCallOnOneRankIsToldToEveryRankInStep) {
  expect_no_trace_where_allowed(2, [](Trainee& trainee) {
    const auto scope = trainee.optimizer->no_sync();
    if (trainee.comm->rank() == 1) {
      const auto hidden = trainee.model->hidden(tiny_input(7, 0));
      hidden.register_hook([](const torch::Tensor&) { throw std::domain_error("thrown"); });
      thrown<std::domain_error>(
          [&] { trainee.optimizer->backward(trainee.model->loss_of(hidden)); });
    } else {
      call(trainee, 0);
    }
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }), HasSubstr("rank"));
  });
}

TEST(NoSyncMisuse, TheGradientOfAHeldWindowCannotBeGatheredOnAnyRankAndTheWindowGoesOn) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm, tiny_options(1).deterministic(false));
    if (comm->rank() == 0) {
      held_call(trainee, 0);
    } else {
      held_call(trainee, 1);
    }
    const auto gather = [&] { trainee.optimizer->gather("bias", StateKind::kGradient); };
    EXPECT_THAT(thrown<ContractError>(gather), AllOf(HasSubstr("no_sync()"), HasSubstr("bias")));
    call(trainee, 2 + comm->rank());
    EXPECT_EQ(trainee.optimizer->step().weight, 4);
    trainee.optimizer->shutdown();
  });
}

TEST(NoSyncMisuse, ScopesLieWithinEachOtherAndOutliveTheOptimizer) {
  on_every_rank(1, [](const Comm& comm) {
    std::vector<Optimizer::NoSync> scopes;
    {
      Trainee trainee(comm, tiny_options(2).deterministic(false));
      {
        auto outer = trainee.optimizer->no_sync();
        {
          const auto inner = trainee.optimizer->no_sync();
          const auto moved = std::move(outer);
          call(trainee, 0);
        }
        call(trainee, 1);  // outside of both: the outer one was moved away and is gone
      }
      EXPECT_EQ(trainee.optimizer->step().weight, 2);
      scopes.push_back(trainee.optimizer->no_sync());
      trainee.optimizer->shutdown();
    }
  });
}

}  // namespace
}  // namespace zero::testing
