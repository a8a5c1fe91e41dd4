#include <thread>

#include "libzero/collective/testing/faults.h"
#include "libzero/optim/checkpoint_state.h"
#include "tests/optim/misuse_support.h"

// Peers that die, fall behind or fail in the middle of things.

namespace zero::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The `call`-th call of rank 1 whose label holds `label` fails.
Fault failure(const std::string& label, std::int64_t call = 1) {
  Fault fault;
  fault.label = label;
  fault.call = call;
  return fault;
}

/// The communicator, on rank 1 with the fault.
Comm strike_rank_1(const Comm& comm, const Fault& fault) {
  return comm->rank() == 1 ? with_faults(comm, {fault}) : comm;
}

TEST(Destructor, WithoutShutdownDoesNotHangAndTheOthersLearn) {
  for (const int stage : {0, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      const Stopwatch watch;
      {
        Trainee trainee(comm, tiny_options(stage));
        trainee.window(0);
        if (comm->rank() == 0) {
          EXPECT_THAT(thrown<CommError>([&] { trainee.window(1); }), HasSubstr("rank 1"));
        }
      }
      EXPECT_LT(watch.elapsed(), kPrompt);
      // The communicator that the optimizer was given is whole.
      Trainee again(comm, tiny_options(stage));
      EXPECT_TRUE(again.window(0).applied);
      again.optimizer->shutdown();
    });
  }
}

TEST(Abort, TellsTheOthersWhoAndWhyWhateverTheyWaitIn) {
  for (const bool in_checkpoint : {false, true}) {
    on_every_rank(3, [&](const Comm& comm) {
      Trainee trainee(comm);
      trainee.window(0);
      const auto comm_of_checkpoints = CheckpointAccess(*trainee.optimizer).comm();
      if (comm->rank() == 1) {
        trainee.optimizer->abort("the log cannot be written");
        trainee.optimizer->abort("a second reason");
        EXPECT_THAT(thrown<CommError>([&] { trainee.window(1); }),
                    HasSubstr("used after abort(): the log cannot be written"));
        return;
      }
      const std::string text =
          in_checkpoint ? thrown<CommError>([&] { comm_of_checkpoints->barrier("saving")->wait(); })
                        : thrown<CommError>([&] { trainee.window(1); });
      EXPECT_THAT(text, HasSubstr("the log cannot be written"));
      EXPECT_THAT(text, HasSubstr("rank 1"));
      EXPECT_THAT(text, Not(HasSubstr("second reason")));
    });
  }
}

TEST(Abort, AfterShutdownDoesNothing) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    trainee.optimizer->shutdown();
    trainee.optimizer->abort("too late");
    EXPECT_THAT(thrown<ContractError>([&] { trainee.window(0); }), HasSubstr("shutdown()"));
  });
}

TEST(Destructor, InMidReductionDoesNotHang) {
  for (int round = 0; round < 10; ++round) {
    on_every_rank(2, [&](const Comm& comm) {
      const Stopwatch watch;
      auto trainee = std::make_unique<Trainee>(comm);
      // Rank 0's reductions wait for rank 1, which does not come.
      if (comm->rank() == 0) trainee->optimizer->backward(trainee->model->loss(tiny_input(0, 0)));
      if (comm->rank() == 0) trainee.reset();
      comm->barrier("rank 0 has left")->wait();
      if (comm->rank() == 1) {
        EXPECT_THAT(thrown<CommError>([&] { trainee->window(0); }), HasSubstr("rank 0"));
      }
      EXPECT_LT(watch.elapsed(), kPrompt);
    });
  }
}

/// After a fault the optimizer must refuse everything that talks, with `expected` as the reason.
void expect_dead(Trainee& trainee, const std::string& expected) {
  Optimizer& optimizer = *trainee.optimizer;
  const Snapshot before = snapshot(trainee.model);
  const std::int64_t steps = optimizer.steps_applied();
  const auto refused = ::testing::AllOf(HasSubstr("refuses to go on"), HasSubstr(expected));
  EXPECT_THAT(thrown<CommError>([&] { trainee.backward(5, 2); }), refused);
  EXPECT_THAT(thrown<CommError>([&] { optimizer.step(); }), refused);
  EXPECT_THAT(thrown<CommError>([&] { optimizer.zero_grad(); }), refused);
  EXPECT_THAT(thrown<CommError>([&] { optimizer.gather("first", StateKind::kMaster); }), refused);
  EXPECT_THAT(thrown<CommError>([&] { optimizer.refresh_masters(); }), refused);
  EXPECT_THAT(thrown<CommError>(
                  [&] { optimizer.for_each_shard(StateKind::kExpAvg, [](const ShardView&) {}); }),
              refused);
  EXPECT_GT(optimizer.memory().total(), 0);
  EXPECT_EQ(optimizer.steps_applied(), steps);
  expect_same(before, snapshot(trainee.model));
  optimizer.shutdown();
}

constexpr const char* kUnchanged = "no parameter was changed since the last step";
constexpr const char* kMixed = "two different steps";

/// Rank 1's communicator fails; every rank must hear of it promptly, and the one where it failed
/// must say `expected`.
void expect_fault(const Fault& fault, int stage, const std::string& expected) {
  SCOPED_TRACE("[" + fault.label + "] stage " + std::to_string(stage));
  on_every_rank(2, [&](const Comm& comm) {
    const Stopwatch watch;
    Trainee trainee(strike_rank_1(comm, fault), tiny_options(stage));
    trainee.window(0);
    const Snapshot before = snapshot(trainee.model);
    std::string error;
    // The other rank may finish this step before it hears: then the next call tells it.
    error = thrown<CommError>([&] {
      trainee.window(1);
      if (comm->rank() == 0) trainee.window(2);
    });
    EXPECT_THAT(error, HasSubstr("a fault was injected"));
    EXPECT_LT(watch.elapsed(), kPrompt);
    if (comm->rank() == 1) {
      EXPECT_EQ(trainee.optimizer->steps_applied(), 1);
    }
    if (comm->rank() == 1 && expected == kUnchanged) expect_same(before, snapshot(trainee.model));
    expect_dead(trainee, comm->rank() == 1 ? expected : "parameter");
  });
}

TEST(Fault, InAReductionLeavesParametersUnchangedAndTheOptimizerDead) {
  for (const int stage : {0, 1, 2}) {
    expect_fault(failure("backward call 1 of step 2, bucket 0"), stage, kUnchanged);
    expect_fault(failure("backward call 3 of step 2, bucket 2"), stage, kUnchanged);
  }
}

TEST(Fault, InTheVoteLeavesParametersUnchangedAndTheOptimizerDead) {
  for (const int stage : {0, 1, 2}) expect_fault(failure("step 2 after"), stage, kUnchanged);
}

TEST(Fault, InTheUpdateSaysThatParametersMayBeMixed) {
  // Each label is seen once a step; the second is that of step 2.
  expect_fault(failure("summed gradients, bucket 0", 2), 0, kMixed);
  expect_fault(failure("summed gradients, bucket 2", 2), 0, kMixed);
  for (const int stage : {1, 2}) {
    expect_fault(failure("parameters, bucket 0", 2), stage, kMixed);
    expect_fault(failure("parameters, bucket 3", 2), stage, kMixed);
  }
}

TEST(Fault, InTheMidOfAnUpdateLeavesStepAndParametersBehindTheOptimizersWord) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(strike_rank_1(comm, failure("summed gradients, bucket 2", 2)), tiny_options(0));
    trainee.window(0);
    const Snapshot before = snapshot(trainee.model);
    thrown<CommError>([&] {
      trainee.window(1);
      if (comm->rank() == 0) trainee.window(2);
    });
    if (comm->rank() == 1) {
      EXPECT_FALSE(same(before, snapshot(trainee.model)));
    }
  });
}

TEST(Fault, InAGatherKillsTheOptimizerToo) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(strike_rank_1(comm, failure("state of first")));
    trainee.window(0);
    EXPECT_THAT(thrown<CommError>([&] { trainee.optimizer->gather("first", StateKind::kExpAvg); }),
                HasSubstr("a fault was injected"));
    expect_dead(trainee, kUnchanged);
  });
}

TEST(Fault, AtConstructionThrowsOnEveryRank) {
  on_every_rank(2, [](const Comm& comm) {
    const Stopwatch watch;
    const Comm faulty = strike_rank_1(comm, failure("initial value of mixed"));
    EXPECT_THAT(thrown<CommError>([&] { Trainee trainee(faulty); }),
                HasSubstr("a fault was injected"));
    EXPECT_LT(watch.elapsed(), kPrompt);
  });
}

TEST(Timing, ASlowRankChangesNoBit) {
  const Snapshot expected = without_accident(2);
  for (const int stage : {0, 1, 2}) {
    for (const Operation operation : {Operation::kReduceScatter, Operation::kAllGather}) {
      on_every_rank(2, [&](const Comm& comm) {
        Fault slow;
        slow.kind = Fault::Kind::kDelay;
        slow.operation = operation;
        slow.delay = std::chrono::milliseconds(2);
        Trainee trainee(strike_rank_1(comm, slow), tiny_options(stage));
        trainee.window(0);
        trainee.window(1);
        expect_same(expected, snapshot(trainee.model));
        trainee.optimizer->shutdown();
      });
    }
  }
}

TEST(Timing, ARankThatIsSlowInItsLossChangesNoBit) {
  const Snapshot expected = without_accident(2);
  on_every_rank(3, [&](const Comm& comm) {
    Trainee trainee(comm);
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t i = comm->rank(); i < 6; i += 3) {
        if (comm->rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        trainee.optimizer->backward(trainee.model->loss(tiny_input(step, i)));
      }
      trainee.optimizer->step();
    }
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

/// Model and loss of one of two optimizers in one process.
TEST(TwoOptimizers, InterleavedOverOneCommunicatorGiveTheBitsOfEachAlone) {
  const Snapshot expected = without_accident(2);
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee a(comm, tiny_options(stage));
      Trainee b(comm, tiny_options(2 - stage));
      for (std::int64_t step = 0; step < 2; ++step) {
        for (std::int64_t i = comm->rank(); i < 6; i += 2) {
          const auto loss_a = a.model->loss(tiny_input(step, i));
          const auto loss_b = b.model->loss(tiny_input(step, i));
          b.optimizer->backward(loss_b);
          a.optimizer->backward(loss_a);
        }
        a.optimizer->step();
        b.optimizer->step();
      }
      expect_same(expected, snapshot(a.model));
      expect_same(expected, snapshot(b.model));
      a.optimizer->shutdown();
      b.optimizer->shutdown();
    });
  }
}

TEST(TwoOptimizers, OverPartsOfOneModelWorkWithALossEach) {
  on_every_rank(2, [](const Comm& comm) {
    Tiny model;
    Optimizer left({{"first", model->first}, {"bias", model->bias}}, {}, AdamWOptions(1e-2),
                   tiny_options(1), comm);
    Optimizer right({{"mixed", model->mixed}, {"large", model->large}, {"gain", model->gain}}, {},
                    AdamWOptions(1e-2), tiny_options(2), comm);
    const auto x = tiny_input(0, comm->rank());
    left.backward(model->hidden(x).square().sum());
    right.backward(model->loss_of(model->hidden(x).detach()));
    EXPECT_TRUE(right.step().applied);
    EXPECT_TRUE(left.step().applied);
    // One loss for both brings gradients to one of them from outside its backward.
    EXPECT_THAT(thrown<ContractError>([&] { left.backward(model->loss(x)); }),
                HasSubstr("outside Optimizer::backward"));
    EXPECT_THAT(thrown<ContractError>([&] { left.step(); }), HasSubstr("a backward call threw"));
    const auto before = right.gather("gain", StateKind::kMaster);
    right.backward(model->gain * 3 + 0 * model->large.sum() + 0 * model->mixed.sum());
    EXPECT_TRUE(right.step().applied);
    EXPECT_EQ(right.gather("gain", StateKind::kGradient).item<float>(), 3);
    left.shutdown();
    right.shutdown();
  });
}

TEST(TwoOptimizers, OverTheSameParametersAreRefusedInBackward) {
  on_every_rank(1, [](const Comm& comm) {
    Trainee trainee(comm);
    Optimizer second(*trainee.model, AdamWOptions(1e-2), tiny_options(2), comm);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(0); }),
                HasSubstr("outside Optimizer::backward"));
  });
}

TEST(TwoOptimizers, OneAfterTheOtherTakesTheModelOver) {
  const Snapshot expected = without_accident(1);
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      trainee.backward(9, 2);
      trainee.optimizer->shutdown();
      trainee.optimizer.reset();
      trainee.optimizer = std::make_unique<Optimizer>(
          *trainee.model, AdamWOptions(1e-2).weight_decay(0.1), tiny_options(2 - stage), comm);
      trainee.window(0);
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

}  // namespace
}  // namespace zero::testing
