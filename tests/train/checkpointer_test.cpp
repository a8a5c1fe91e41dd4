#include "libzero/train/checkpointer.h"

#include <filesystem>
#include <fstream>
#include <mutex>

#include "checkpoint/file_system.h"
#include "checkpoint/names.h"
#include "tests/optim/misuse_support.h"
#include "tests/train/weights_file.h"

namespace zero::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

/// Lines that a Checkpointer said, from any rank's thread.
class Lines {
 public:
  LogSink sink() {
    return [this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class CheckpointerTest : public ::testing::TestWithParam<bool> {
 protected:
  bool async() const { return GetParam(); }
  std::string root() const { return folder_ / "root"; }
  CheckpointOptions options() { return CheckpointOptions().async(async()).log(lines_.sink()); }

  std::vector<std::string> steps() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step_")) names.push_back(name.substr(name.find_last_of('0') + 1));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string directory(std::int64_t step) const {
    std::string digits = std::to_string(step);
    return root() + "/step_" + std::string(12 - digits.size(), '0') + digits;
  }

  /// Collective: trains to each of the steps and saves there.
  static void save_at(Trainee& trainee, Checkpointer& checkpoints,
                      const std::vector<std::int64_t>& at) {
    for (const std::int64_t step : at) {
      while (trainee.optimizer->steps_taken() < step)
        trainee.window(trainee.optimizer->steps_taken());
      checkpoints.save();
    }
    checkpoints.finish();
  }

  /// Collective: rank 0 changes one bit of what rank 1 saved.
  void flip_a_bit(const Comm& comm, std::int64_t step) const {
    comm->barrier("before the damage")->wait();
    if (comm->rank() == 0) {
      std::fstream file(directory(step) + "/shard-00001-of-00002.h5",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-64, std::ios::end);
      const int byte = file.get();
      file.seekp(-64, std::ios::end);
      file.put(static_cast<char>(byte ^ 1));
      EXPECT_TRUE(file.good());
    }
    comm->barrier("after the damage")->wait();
  }

  /// Collective: what is there while no rank saves.
  std::vector<std::string> steps_now(const Comm& comm) const {
    comm->barrier("before looking")->wait();
    const auto now = steps();
    comm->barrier("after looking")->wait();
    return now;
  }

  TemporaryFolder folder_;
  Lines lines_;
};

INSTANTIATE_TEST_SUITE_P(Saves, CheckpointerTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Async" : "Sync"; });

TEST_P(CheckpointerTest, ARunThatIsResumedOnAnyWorldEndsWithTheSameBits) {
  const Snapshot expected = without_accident(6);
  std::int64_t step = 0;
  for (const int world : {3, 1, 2}) {
    on_every_rank(world, [&](const Comm& comm) {
      Trainee trainee(comm);
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      const LoadReport report = checkpoints.resume(LoadOptions().reshard_on_load(true));
      EXPECT_EQ(report.found, step > 0);
      if (report.found) {
        EXPECT_EQ(report.trainer.counters.at("samples_seen"), 7 * step);
      }
      EXPECT_EQ(trainee.optimizer->steps_taken(), step);
      for (std::int64_t next = step; next < step + 2; ++next) {
        trainee.window(next);
        TrainerState trainer;
        trainer.counters["samples_seen"] = 7 * (next + 1);
        checkpoints.save(trainer);
      }
      checkpoints.finish();
      if (step == 4) expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
    step += 2;
  }
  EXPECT_THAT(steps(), ElementsAre("4", "5", "6"));
}

TEST_P(CheckpointerTest, WhatTheTrainerChangesAfterSaveIsNotInTheCheckpoint) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    trainee.window(0);
    const Snapshot saved = snapshot(trainee.model);
    checkpoints.save();
    trainee.window(1);
    checkpoints.finish();
    checkpoints.resume();
    expect_same(saved, snapshot(trainee.model));
    EXPECT_EQ(trainee.optimizer->steps_taken(), 1);
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, KeepsTheNewestAndEveryNthForGood) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options().keep(2).keep_every(3));
    for (std::int64_t step = 0; step < 8; ++step) {
      trainee.window(step);
      checkpoints.save();
    }
    checkpoints.finish();
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(steps(), ElementsAre("3", "6", "7", "8"));
  EXPECT_THAT(lines_.all(), Contains(HasSubstr("checkpoint: step 8 saved, ")));
  EXPECT_THAT(lines_.all(), Contains("checkpoint: removed older ones: step 5"));
}

TEST_P(CheckpointerTest, ARunHasOneIdForAllItsCheckpointsAndKeepsItWhenResumed) {
  std::string id;
  for (const std::string given : {"", "", "mine.2"}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm);
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      const LoadReport found = checkpoints.resume();
      if (found.found) {
        EXPECT_EQ(found.trainer.run_id, id);
      }
      trainee.window(trainee.optimizer->steps_taken());
      TrainerState trainer;
      if (!given.empty()) trainer.run_id = given;
      checkpoints.save(trainer);
      checkpoints.finish();
      const LoadReport again = checkpoints.resume();
      comm->barrier("before the id is noted")->wait();
      if (comm->rank() == 0) id = again.trainer.run_id;
      trainee.optimizer->shutdown();
    });
    EXPECT_THAT(id, MatchesRegex(given.empty() ? "[0-9a-f]+" : given));
    EXPECT_EQ(id.size(), given.empty() ? 16U : given.size());
  }
}

TEST_P(CheckpointerTest, ADamagedDirectoryOfTheStepMakesWayAndAWholeOneDoesNot) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    {
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      trainee.window(0);
      checkpoints.save();
      checkpoints.finish();
      const std::string error = thrown<ContractError>([&] { checkpoints.save(); });
      EXPECT_THAT(error, HasSubstr("a whole checkpoint of this step already; resume from"));
      EXPECT_THAT(error, HasSubstr(directory(1)));
    }
    for (const char* victim : {"/common.h5", "/MANIFEST.json", ""}) {
      comm->barrier("before the damage")->wait();
      if (comm->rank() == 0) {
        std::filesystem::remove_all(directory(1) + victim);
        std::filesystem::create_directory(directory(1));  // if it was the victim itself
      }
      comm->barrier("after the damage")->wait();
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      EXPECT_THROW(checkpoints.resume(), FormatError) << "no whole one is no empty root";
      checkpoints.save();
      checkpoints.finish();
      EXPECT_TRUE(checkpoints.resume().found);
    }
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(lines_.all(),
              Contains(HasSubstr("removed a damaged checkpoint to save its step again")));
}

TEST_P(CheckpointerTest, ResumePassesOverADamagedNewestOneAndSaysSo) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    for (std::int64_t step = 0; step < 2; ++step) {
      trainee.window(step);
      checkpoints.save();
    }
    checkpoints.finish();
    comm->barrier("before the damage")->wait();
    if (comm->rank() == 0) std::filesystem::resize_file(directory(2) + "/MANIFEST.json", 100);
    comm->barrier("after the damage")->wait();
    const LoadReport report = checkpoints.resume();
    EXPECT_EQ(report.step, 1);
    EXPECT_THAT(report.warnings, Contains(HasSubstr("step_000000000002")));
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(lines_.all(), Contains(HasSubstr("step_000000000002")));
}

TEST_P(CheckpointerTest, AFlippedBitInTheNewestCostsNoLaterSaveAndItsStepCanBeSavedAgain) {
  on_every_rank(2, [&](const Comm& comm) {
    {
      Trainee trainee(comm);
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      save_at(trainee, checkpoints, {1, 3, 5});
      flip_a_bit(comm, 3);
      flip_a_bit(comm, 5);
      EXPECT_EQ(checkpoints.resume().step, 1);
    }
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options().keep(1));
    const LoadReport report = checkpoints.resume();
    EXPECT_EQ(report.step, 1);
    EXPECT_THAT(report.damaged_steps, ElementsAre(5, 3));
    save_at(trainee, checkpoints, {2});
    EXPECT_THAT(steps_now(comm), ElementsAre("2", "3", "5"));
    save_at(trainee, checkpoints, {3});
    EXPECT_THAT(steps_now(comm), ElementsAre("3", "5"));
    save_at(trainee, checkpoints, {4, 6});
    EXPECT_THAT(steps_now(comm), ElementsAre("5", "6")) << "evidence stays";
    EXPECT_EQ(checkpoints.resume().step, 6);
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(lines_.all(), Contains(HasSubstr("to save its step again: step_000000000003")));
}

TEST_P(CheckpointerTest, WhoGoesBackKeepsTheNewSavesAndOverwritesNoWholeOne) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    {
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      save_at(trainee, checkpoints, {1, 4});
    }
    comm->barrier("the first one is gone")->wait();
    const LoadReport report = trainee.optimizer->load(directory(1));
    Checkpointer checkpoints(*trainee.optimizer, root(), options().keep(1));
    const auto save = [&](std::int64_t step) {
      while (trainee.optimizer->steps_taken() < step)
        trainee.window(trainee.optimizer->steps_taken());
      TrainerState trainer;
      trainer.run_id = report.trainer.run_id;
      checkpoints.save(trainer);
      checkpoints.finish();
    };
    save(2);
    EXPECT_THAT(steps_now(comm), ElementsAre("2", "4"));
    save(3);
    EXPECT_THAT(steps_now(comm), ElementsAre("3", "4"));
    EXPECT_THAT(thrown<ContractError>([&] { save(4); }),
                HasSubstr("a whole checkpoint of this step already"));
    save(5);
    EXPECT_THAT(steps_now(comm), ElementsAre("4", "5"));
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, WhatTheLogSinkThrowsComesOutOnEveryRankAndTheCheckpointStands) {
  const Stopwatch watch;
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    bool is_angry = true;  // both kinds are one kind to the ranks
    const auto sink = [&](LogLevel level, std::string_view) {
      if (is_angry && level == LogLevel::kWarning) throw CommError("no log today");
      if (is_angry) throw 42;
    };
    {
      Checkpointer checkpoints(*trainee.optimizer, root(), options().keep(1).log(sink));
      for (const std::int64_t step : {1, 2}) {
        EXPECT_THAT(thrown<Error>([&] { save_at(trainee, checkpoints, {step}); }),
                    HasSubstr("log sink threw"));
      }
      EXPECT_THAT(steps_now(comm), ElementsAre("2"));
      if (comm->rank() == 0) std::filesystem::remove(root() + "/LATEST");
      EXPECT_THAT(thrown<Error>([&] { checkpoints.resume(); }), HasSubstr("no log today"));
      trainee.window(2);
      if (async()) checkpoints.save();  // the destructor drops it
    }
    trainee.optimizer->shutdown();
  });
  EXPECT_LT(watch.elapsed(), kPrompt);
}

TEST_P(CheckpointerTest, ARefusalNamesTheStep) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    trainee.window(0);
    trainee.backward(1);  // the middle of a window
    EXPECT_THAT(thrown<ContractError>([&] {
                  checkpoints.save();
                  checkpoints.finish();
                }),
                HasSubstr("step 1, phase begin"));
    trainee.optimizer->step();
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, AFailedSaveComesOutOnEveryRankAndTrainingGoesOn) {
  const Snapshot expected = without_accident(2);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    trainee.window(0);
    checkpoints.save();
    checkpoints.finish();
    comm->barrier("before the accident")->wait();
    if (comm->rank() == 0) {  // a name that the next save's directory needs
      std::filesystem::remove_all(root());
      std::ofstream(root()) << "no directory";
    }
    comm->barrier("after the accident")->wait();
    trainee.window(1);
    EXPECT_THROW(
        {
          checkpoints.save();
          checkpoints.finish();
        },
        Error);
    comm->barrier("before the repair")->wait();
    if (comm->rank() == 0) std::filesystem::remove(root());
    comm->barrier("after the repair")->wait();
    expect_same(expected, snapshot(trainee.model));
    checkpoints.save();
    checkpoints.finish();
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(steps(), ElementsAre("2"));
}

TEST_P(CheckpointerTest, TwoJobsInOneRootAreKeptApartByALock) {
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    {
      Checkpointer first(*trainee.optimizer, root(), options());
      trainee.window(0);
      first.save();
      first.finish();
      const std::string error =
          thrown<ContractError>([&] { Checkpointer(*trainee.optimizer, root(), options()); });
      EXPECT_THAT(error, HasSubstr("another job saves into this root"));
      EXPECT_THAT(error, HasSubstr(root() + "/.job.lock"));
      Checkpointer(*trainee.optimizer, root(), options().lock(false));
    }
    comm->barrier("the first one is gone")->wait();
    Checkpointer second(*trainee.optimizer, root(), options());
    EXPECT_TRUE(second.resume().found);
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, BadArgumentsThrowOnEveryRank) {
  std::ofstream(folder_ / "file") << "x";
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Optimizer& optimizer = *trainee.optimizer;
    const std::string mine = root() + std::to_string(comm->rank());
    EXPECT_THAT(thrown<ContractError>([&] { Checkpointer(optimizer, mine, options()); }),
                HasSubstr("rank 1 has 'root of checkpoints"));
    EXPECT_THROW(Checkpointer(optimizer, root(), options().keep(comm->rank())), ContractError);
    EXPECT_THROW(Checkpointer(optimizer, root(), options().keep(-1)), ContractError);
    EXPECT_THROW(Checkpointer(optimizer, root(), options().keep_every(-1)), ContractError);
    EXPECT_THROW(Checkpointer(optimizer, "", options()), ContractError);
    EXPECT_THAT(
        thrown<ContractError>([&] { Checkpointer(optimizer, folder_ / "file", options()); }),
        HasSubstr("the root is a file"));
    EXPECT_THAT(thrown<IoError>([&] { Checkpointer(optimizer, folder_ / "no/root", options()); }),
                HasSubstr("make it: " + (folder_ / "no")));
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, ARootMayBeASymbolicLink) {
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", root());
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    Checkpointer checkpoints(*trainee.optimizer, root(), options());
    trainee.window(0);
    checkpoints.save();
    checkpoints.finish();
    EXPECT_TRUE(checkpoints.resume().found);
    trainee.optimizer->shutdown();
  });
}

TEST_P(CheckpointerTest, LeavesEarlyAndLosesNothing) {
  on_every_rank(3, [&](const Comm& comm) {
    Trainee trainee(comm);
    {
      Checkpointer checkpoints(*trainee.optimizer, root(), options());
      trainee.window(0);
      checkpoints.save();
    }  // no finish()
    EXPECT_EQ(trainee.window(1).step, 2) << "the optimizer is none the worse";
    trainee.optimizer->shutdown();
  });
  EXPECT_THAT(steps(), ElementsAre("1"));
}

}  // namespace
}  // namespace zero::testing
