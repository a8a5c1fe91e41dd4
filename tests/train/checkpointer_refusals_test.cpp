/// What ranks refuse to save comes out of save() itself; what kills a communicator kills the
/// optimizer.

#include <filesystem>

#include "libzero/collective/testing/faults.h"
#include "libzero/train/checkpointer.h"
#include "tests/optim/misuse_support.h"
#include "tests/train/weights_file.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RefusalTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string root() const { return folder_ / "root"; }
  CheckpointOptions options() const { return CheckpointOptions().async(GetParam()); }

  /// Runs `save` on both ranks of a training after one window. It must be refused by itself:
  /// nothing is left to be heard of, nothing was written, and a save without it succeeds.
  std::string refusal(const std::function<void(Trainee&, Checkpointer&)>& save,
                      const std::function<void(Trainee&)>& mend = nullptr) {
    std::vector<std::string> texts(2);
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm);
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      trainee.window(0);
      texts[static_cast<std::size_t>(comm->rank())] =
          thrown<ContractError>([&] { save(trainee, checkpoints); });
      EXPECT_NO_THROW(checkpoints.finish());
      EXPECT_FALSE(std::filesystem::exists(root()));
      if (mend) mend(trainee);
      comm->barrier("both have looked")->wait();
      checkpoints.save();
      checkpoints.finish();
      trainee.optimizer->shutdown();
    });
    EXPECT_EQ(texts[0], texts[1]);
    std::filesystem::remove_all(root());
    return texts[0];
  }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Saves, RefusalTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Async" : "Sync"; });

TEST_P(RefusalTest, InTheMiddleOfAWindow) {
  EXPECT_THAT(refusal(
                  [](Trainee& trainee, Checkpointer& checkpoints) {
                    trainee.backward(1);
                    checkpoints.save();
                  },
                  [](Trainee& trainee) { trainee.optimizer->zero_grad(); }),
              AllOf(HasSubstr("in the middle of a window"), HasSubstr("rank 0")));
}

TEST_P(RefusalTest, OfAKeyThatBreaksTheRulesOnOneRank) {
  EXPECT_THAT(refusal([](Trainee& trainee, Checkpointer& checkpoints) {
                TrainerState trainer;
                if (trainee.comm->rank() == 1) trainer.rank_blobs["random.cpu"] = {};
                checkpoints.save(trainer);
              }),
              AllOf(HasSubstr("rank 1"), HasSubstr("belongs to libzero: 'random.cpu'")));
}

TEST_P(RefusalTest, OfCountersThatDiffer) {
  EXPECT_THAT(refusal([](Trainee& trainee, Checkpointer& checkpoints) {
                TrainerState trainer;
                trainer.counters["samples_seen"] = trainee.comm->rank();
                checkpoints.save(trainer);
              }),
              HasSubstr("rank 1 has 'counter samples_seen: 1' where rank 0 has"));
}

TEST_P(RefusalTest, OfRunIdsThatDiffer) {
  for (const std::string& theirs : {std::string(), std::string("theirs")}) {
    EXPECT_THAT(refusal([&](Trainee& trainee, Checkpointer& checkpoints) {
                  TrainerState trainer;
                  trainer.run_id = trainee.comm->rank() == 0 ? "mine" : theirs;
                  checkpoints.save(trainer);
                }),
                AllOf(HasSubstr("the run id must be the same on every rank: rank 0 has 'mine'"),
                      HasSubstr("rank 1 has '" + theirs + "'")));
  }
}

TEST_P(RefusalTest, OfABadRunIdWhichIsForgotten) {
  EXPECT_THAT(refusal([](Trainee&, Checkpointer& checkpoints) {
                TrainerState trainer;
                trainer.run_id = "a b";
                checkpoints.save(trainer);
              }),
              HasSubstr("the run id is not 1-64"));
}

TEST_P(RefusalTest, ARunMayBeCalledRun) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    trainee.window(0);
    TrainerState trainer;
    trainer.run_id = "run";
    checkpoints.save(trainer);
    checkpoints.finish();
    EXPECT_EQ(checkpoints.resume().trainer.run_id, "run");
    trainee.optimizer->shutdown();
  });
}

TEST_P(RefusalTest, ResumingIsNoFineTuning) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    const auto options = LoadOptions().weights_only(comm->rank() == 1);
    EXPECT_THAT(thrown<ContractError>([&] { checkpoints.resume(options); }),
                AllOf(HasSubstr("rank 1"), HasSubstr("call Optimizer::load with it")));
    EXPECT_FALSE(checkpoints.resume().found);
    trainee.optimizer->shutdown();
  });
}

/// Rank 1's communicator breaks at the first call whose label holds this.
class DeathTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

INSTANTIATE_TEST_SUITE_P(
    Calls, DeathTest,
    ::testing::Combine(::testing::Values<std::string>("opening the root", "the run id",
                                                      "id of the run", "who can save what",
                                                      "room for a checkpoint", "who failed",
                                                      "commit, outcome", "seeing a checkpoint off",
                                                      "which checkpoint to resume from",
                                                      "what was resumed"),
                       ::testing::Bool()));

TEST_P(DeathTest, InACallOfTheCheckpointerKillsTheOptimizer) {
  const auto& [label, async] = GetParam();
  const TemporaryFolder folder;
  const Stopwatch watch;
  const auto errors = errors_on_ranks(2, [&, label = label, async = async](const Comm& comm) {
    Fault fault;
    fault.label = label;
    Trainee trainee(comm->rank() == 1 ? with_faults(comm, {fault}) : comm);
    trainee.window(0);
    bool has_died = false;
    try {
      Checkpointer checkpoints(*trainee.optimizer, folder / "root",
                               CheckpointOptions().async(async));
      checkpoints.save();
      checkpoints.finish();
      checkpoints.resume();
    } catch (const CommError&) {
      has_died = true;
    }
    EXPECT_TRUE(has_died);
    const char* const dead = "refuses to go on after a communication error";
    EXPECT_THAT(thrown<CommError>([&] { trainee.optimizer->step(); }), HasSubstr(dead));
    EXPECT_THAT(thrown<CommError>([&] { trainee.optimizer->save(folder / "other"); }),
                HasSubstr(dead));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
  EXPECT_LT(watch.elapsed(), kPrompt);
}

}  // namespace
}  // namespace zero::testing
