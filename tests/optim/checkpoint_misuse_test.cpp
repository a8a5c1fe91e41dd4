/// What goes wrong on one rank is an error on all, and leaves no trace.

#include <fstream>

#include "checkpoint/store.h"
#include "libzero/optim/checkpoint_state.h"
#include "tests/optim/checkpoint_support.h"
#include "tests/optim/faulty_store.h"

namespace zero::testing {
namespace {

using checkpoint::CommitUnknown;
using checkpoint::make_memory_store;
using checkpoint::Store;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Windows before and after an accident.
constexpr std::int64_t kBefore = 2;
constexpr std::int64_t kAfter = 4;

/// `accident` after two windows must not change a bit, now or later. It throws E on every rank;
/// returns the message, which must be the same everywhere.
template <typename E>
std::string refused(int world_size, const std::function<void(Job&)>& accident,
                    const JobOptions& options = {}) {
  std::vector<std::string> messages(static_cast<std::size_t>(world_size));
  on_jobs(world_size, options, [&](Job& job) {
    job.train(kBefore);
    const Image before = job.image();
    messages[static_cast<std::size_t>(job.comm_->rank())] = thrown<E>([&] { accident(job); });
    EXPECT_EQ(first_difference(before, job.image()), "");
    job.train(kAfter);
    EXPECT_EQ(first_difference(twin_image(options.dtype, kAfter), job.image()), "");
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return messages[0];
}

TEST(SaveMisuse, WithoutWindowsAsWellAsWithThem) {
  const auto store = make_memory_store();
  on_jobs(2, {}, [&](Job& job) {
    EXPECT_EQ(job.optimizer->steps_taken(), 0);
    job.optimizer->save(*store);
    job.train(3);
    EXPECT_EQ(job.optimizer->steps_taken(), 3);
    job.optimizer->save(*store);
  });
  EXPECT_EQ(store->list().steps.size(), 2u);
}

TEST(SaveMisuse, InTheMiddleOfAWindowIsRefusedAndTheWindowGoesOn) {
  const auto store = make_memory_store();
  for (const int culprit : {-1, 0, 1}) {  // -1: every rank is in the middle
    on_jobs(2, {}, [&](Job& job) {
      job.train(kBefore);
      job.optimizer->save(*store);  // from here on there is a communicator for checkpoints
      const int rank = job.comm_->rank();
      const bool is_in_window = culprit < 0 || culprit == rank;
      const auto run = [&](std::int64_t micro) {
        job.optimizer->backward(job.model->loss(toy_batch(kBefore, micro)));
      };
      if (is_in_window) run(rank);
      const std::string message = thrown<ContractError>([&] { job.optimizer->save(*store); });
      EXPECT_THAT(message,
                  HasSubstr("in the middle of a window; call step() or zero_grad() first"));
      EXPECT_THAT(message, HasSubstr("rank " + std::to_string(std::max(culprit, 0))));
      if (!is_in_window) run(rank);
      for (std::int64_t i = rank + 2; i < kMicros; i += 2) run(i);
      job.optimizer->step();
      EXPECT_EQ(bytes_of(job.model->first->weight),
                twin_image(torch::kFloat, kBefore + 1).at("parameter first.weight"));
    });
    store->remove(kBefore);
  }
}

TEST(SaveMisuse, TheFirstSaveInAWindowThatOnlyOneRankIsInDropsTheWindow) {
  const auto store = make_memory_store();
  refused<ContractError>(2, [&](Job& job) {
    if (job.comm_->rank() == 1) job.optimizer->backward(job.model->loss(toy_batch(0, 0)));
    job.optimizer->save(*store);
  });
}

TEST(SaveMisuse, OfAStepThatHasACheckpoint) {
  const auto store = make_memory_store();
  EXPECT_THAT(refused<ContractError>(2,
                                     [&](Job& job) {
                                       job.optimizer->save(*store);
                                       job.optimizer->save(*store);
                                     }),
              AllOf(HasSubstr("this step has a checkpoint already"), HasSubstr("step 2")));
}

TEST(SaveMisuse, OfKeysThatAreNotTheTrainers) {
  const auto store = make_memory_store();
  const auto refusal = [&](const TrainerState& trainer) {
    return refused<ContractError>(2, [&](Job& job) {
      job.optimizer->save(*store, job.comm_->rank() == 1 ? trainer : TrainerState());
    });
  };
  EXPECT_THAT(refusal({.counters = {{"applied_steps", 7}}}),
              AllOf(HasSubstr("rank 1"), HasSubstr("belongs to libzero: 'applied_steps'")));
  EXPECT_THAT(refusal({.blobs = {{"layout.x", {}}}}), HasSubstr("belongs to libzero: 'layout.x'"));
  EXPECT_THAT(refusal({.rank_blobs = {{"random.cpu", {}}}}),
              HasSubstr("belongs to libzero: 'random.cpu'"));
  EXPECT_THAT(refusal({.counters = {{"a b", 7}}}), HasSubstr("'a b'"));
  EXPECT_THAT(refusal({.run_id = "a b"}), HasSubstr("the run id is not 1-64"));
}

TEST(SaveMisuse, OfWhatDiffersBetweenRanks) {
  const auto store = make_memory_store();
  EXPECT_THAT(
      refused<ContractError>(
          2,
          [&](Job& job) {
            job.optimizer->save(*store, {.counters = {{"samples_seen", job.comm_->rank()}}});
          }),
      HasSubstr("samples_seen"));
  EXPECT_THAT(refused<ContractError>(2,
                                     [&](Job& job) {
                                       auto& options = job.optimizer->param_groups()[1].options();
                                       const double lr = options.get_lr();
                                       if (job.comm_->rank() == 1) options.set_lr(lr + 1);
                                       try {
                                         job.optimizer->save(*store);
                                       } catch (...) {
                                         options.set_lr(lr);
                                         throw;
                                       }
                                     }),
              HasSubstr("lr"));
  const TemporaryFolder folder;
  EXPECT_THAT(
      refused<ContractError>(2,
                             [&](Job& job) {
                               job.optimizer->save(folder /
                                                   ("root" + std::to_string(job.comm_->rank())));
                             }),
      AllOf(HasSubstr("must be the same on every rank"), HasSubstr("root0"), HasSubstr("root1")));
}

TEST(SaveMisuse, ADiskThatFailsOnOneRankFailsOnAllAndTheNextSaveSucceeds) {
  const auto store = make_memory_store();
  const auto fail = [](const char* what) { throw IoError(std::string("no space left: ") + what); };
  const StoreFaults faults[] = {{.begin = [&] { fail("begin"); }},
                                {.join = [&] { fail("join"); }},
                                {.put = [&] { fail("put"); }},
                                {.commit = [&] { fail("commit"); }}};
  for (const StoreFaults& fault : faults) {
    const int culprit = fault.begin || fault.commit ? 0 : 1;
    const std::string message = refused<IoError>(2, [&](Job& job) {
      FaultyStore faulty(*store, fault);
      job.optimizer->save(job.comm_->rank() == culprit ? static_cast<Store&>(faulty) : *store);
    });
    EXPECT_THAT(message, AllOf(HasSubstr("rank " + std::to_string(culprit)),
                               HasSubstr("no space left"), HasSubstr("training can go on")));
  }
  on_jobs(2, {}, [&](Job& job) {
    job.train(kBefore);
    job.optimizer->save(*store);
  });
}

TEST(SaveMisuse, TrainingGoesOnAfterACommitThatIsInDoubt) {
  const auto store = make_memory_store();
  const std::string message = refused<CommitUnknown>(2, [&](Job& job) {
    FaultyStore faulty(*store, {.commit = [] { throw CommitUnknown("fsync: I/O error"); }});
    job.optimizer->save(faulty);
  });
  EXPECT_THAT(message, HasSubstr("it is not known whether a checkpoint was saved"));
}

TEST(SaveMisuse, AfterShutdown) {
  const auto store = make_memory_store();
  on_every_rank(2, [&](const Comm& comm) {
    Job job(comm);
    job.optimizer->save(*store);
    job.optimizer->shutdown();
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->save(*store); }),
                HasSubstr("used after shutdown()"));
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*store, 0); }),
                HasSubstr("used after shutdown()"));
    EXPECT_THAT(thrown<ContractError>([&] { CheckpointAccess(*job.optimizer).state({}); }),
                HasSubstr("used after shutdown()"));
    EXPECT_EQ(job.optimizer->steps_taken(), 0);
  });
}

TEST(SaveMisuse, OfADeadOptimizer) {
  const auto store = make_memory_store();
  const auto errors = errors_on_ranks(2, [&](const Comm& comm) {
    Job job(comm);
    job.optimizer->save(*store);
    if (comm->rank() == 1) return;  // leaves without a word
    EXPECT_NE(thrown<CommError>([&] { job.train(1); }), "");
    EXPECT_THAT(thrown<CommError>([&] { job.optimizer->save(*store); }),
                HasSubstr("refuses to go on after a communication error"));
    EXPECT_THAT(thrown<CommError>([&] { job.optimizer->load(*store, 0); }),
                HasSubstr("refuses to go on after a communication error"));
  });
  EXPECT_EQ(errors[0], "");
}

TEST(SaveMisuse, ARankThatDiesInTheMiddleIsAnErrorOnTheOthers) {
  const auto store = make_memory_store();
  const auto errors = errors_on_ranks(3, [&](const Comm& comm) {
    Job job(comm);
    job.optimizer->save(*store);
    job.train(1);
    if (comm->rank() == 2) throw std::runtime_error("killed");
    EXPECT_THAT(thrown<CommError>([&] { job.optimizer->save(*store); }),
                HasSubstr("no parameter was changed since the last step"));
    EXPECT_THAT(thrown<CommError>([&] { job.optimizer->step(); }), HasSubstr("refuses to go on"));
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(store->list().steps.size(), 1u);
}

TEST(SaveMisuse, ThroughTorchSaveIsRefused) {
  on_jobs(1, {}, [&](Job& job) {
    torch::serialize::OutputArchive out;
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->save(out); }),
                HasSubstr("call Optimizer::save(root)"));
    torch::serialize::InputArchive in;
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(in); }),
                HasSubstr("call Optimizer::load(root)"));
  });
}

/// A store with one checkpoint of another training, at step 3.
std::unique_ptr<Store> some_store(int world_size = 2, const JobOptions& options = {}) {
  auto store = make_memory_store();
  on_jobs(world_size, options, [&](Job& job) {
    job.train(3);
    job.optimizer->save(*store);
  });
  return store;
}

TEST(LoadMisuse, DamageOnOneRankIsAnErrorOnAllAndNothingIsTouched) {
  const auto store = some_store();
  std::int64_t reads = 0;
  on_jobs(2, {}, [&](Job& job) {  // how many there are
    std::int64_t mine = 0;
    FaultyStore counting(*store, {.read = [&](std::int32_t, std::string_view) { ++mine; }});
    job.optimizer->load(counting, 3);
    if (job.comm_->rank() == 1) reads = mine;
  });
  ASSERT_GT(reads, 10);
  for (const std::int64_t damaged : {std::int64_t{1}, reads / 2, reads}) {
    const std::string message = refused<FormatError>(2, [&](Job& job) {
      std::int64_t mine = 0;
      FaultyStore faulty(*store, {.read = [&](std::int32_t, std::string_view) {
        if (++mine == damaged) throw FormatError("a block is damaged");
      }});
      job.optimizer->load(job.comm_->rank() == 1 ? static_cast<Store&>(faulty) : *store, 3);
    });
    EXPECT_EQ(message, "rank 1: a block is damaged");
  }
}

TEST(LoadMisuse, WhatOneRankCannotOpenOrReadIsAnErrorOfItsKindOnAll) {
  const auto store = some_store();
  const auto load = [&](const StoreFaults& faults) {
    return [&, faults](Job& job) {
      FaultyStore faulty(*store, faults);
      job.optimizer->load(job.comm_->rank() == 1 ? static_cast<Store&>(faulty) : *store, 3);
    };
  };
  EXPECT_EQ(refused<IoError>(2, load({.open = [] { throw IoError("open: EIO"); }})),
            "rank 1: open: EIO");
  EXPECT_EQ(refused<Error>(
                2, load({.read = [](std::int32_t, std::string_view) { throw std::bad_alloc(); }})),
            std::string("rank 1: ") + std::bad_alloc().what());
}

TEST(LoadMisuse, OfAnotherWorldNamesBothAndTheCommand) {
  const TemporaryFolder folder;
  const std::string root = folder / "it's a run";
  on_jobs(2, {}, [&](Job& job) {
    job.train(3);
    job.optimizer->save(root);
  });
  const std::string message =
      refused<ContractError>(3, [&](Job& job) { job.optimizer->load(root); });
  EXPECT_THAT(message, AllOf(HasSubstr("2 ranks in the checkpoint, 3 here (reshard_on_load)"),
                             HasSubstr("it'\\''s a run/step_000000000003' '"),
                             HasSubstr("it'\\''s a run-world3' --world 3")));
}

TEST(LoadMisuse, OfAnotherModelListsEverything) {
  const auto store = some_store();
  const auto message = refused<ContractError>(2, [&](Job& job) {
    FaultyStore other(*store, {});
    const auto edited = make_memory_store();
    save_edited(*store->open(3), *edited, [](EditedState& state) {
      for (ParameterSpec& row : state.common.parameters) {
        if (row.name == "gain") row.name = "old_gain";
        if (row.name == "first.bias") row.group = 0;
        if (row.name == "mask") row.shape = {1, 5};
      }
      state.common.counters.erase("applied_steps");
    });
    job.optimizer->load(*edited, 3, LoadOptions().reshard_on_load(true));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("nothing was changed"), HasSubstr("5 differences"),
                             HasSubstr("'gain': not in the checkpoint (allow_missing)"),
                             HasSubstr("'old_gain': not in the model (allow_extra)"),
                             HasSubstr("'first.bias': group 0 in the checkpoint, group 1"),
                             HasSubstr("'mask': uint8 [1, 5] in the checkpoint, uint8 [5]"),
                             HasSubstr("counter applied_steps: not in the checkpoint")));
}

TEST(LoadMisuse, HostileTablesAreRefused) {
  const auto store = some_store(1);
  const auto load_edited = [&](const std::function<void(EditedState&)>& edit) {
    return [&, edit](Job& job) {
      const auto edited = make_memory_store();
      save_edited(*store->open(3), *edited, edit);
      job.optimizer->load(*edited, 3);
    };
  };
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refused<ContractError>(1, load_edited([](EditedState& state) {
                                       state.common.counters["applied_steps"] = kHuge;
                                     })),
              HasSubstr("does not lie between 0 and the step"));
  EXPECT_THAT(refused<ContractError>(1, load_edited([](EditedState& state) {
                                       state.common.scaler.consecutive_skips = kHuge;
                                     })),
              HasSubstr("more steps were counted than there were"));
  EXPECT_THAT(refused<ContractError>(1, load_edited([](EditedState& state) {
                                       state.common.groups[1]["beta1"] = 1.5;
                                     })),
              HasSubstr("options in the checkpoint: group 1: betas must lie in [0, 1)"));
  EXPECT_THAT(refused<ContractError>(
                  1, load_edited([](EditedState& state) { state.blobs["random.cpu"].resize(17); })),
              AllOf(HasSubstr("the random state is none of this version of LibTorch's"),
                    HasSubstr("random_state(false)")));
  EXPECT_THAT(
      refused<FormatError>(1, load_edited([](EditedState& state) {
                             for (auto& [key, value] : state.values) {
                               const auto& row =
                                   state.common.parameters[static_cast<std::size_t>(key.first)];
                               if (row.name == "mask") value.second[3] = std::byte{2};
                             }
                           })),
      HasSubstr("another value than 0 and 1: mask, element 3"));
}

TEST(LoadMisuse, InTheMiddleOfAWindowIsRefused) {
  const auto store = some_store();
  on_jobs(2, {}, [&](Job& job) {
    job.train(kBefore);
    for (std::int64_t i = job.comm_->rank(); i < kMicros; i += 2)
      job.optimizer->backward(job.model->loss(toy_batch(kBefore, i)));
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*store, 3); }),
                HasSubstr("load: in the middle of a window; call step() or zero_grad() first"));
    job.optimizer->step();
    EXPECT_EQ(bytes_of(job.model->first->weight),
              twin_image(torch::kFloat, kBefore + 1).at("parameter first.weight"));
  });
}

TEST(LoadMisuse, OfAStepThatIsNotThere) {
  const auto store = some_store();
  EXPECT_THAT(refused<ContractError>(2, [&](Job& job) { job.optimizer->load(*store, 7); }),
              HasSubstr("there is no checkpoint of this step: 7"));
}

TEST(LoadMisuse, OfPathsOrOptionsThatDifferBetweenRanks) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      refused<ContractError>(
          2, [&](Job& job) { job.optimizer->load(folder / std::to_string(job.comm_->rank())); }),
      HasSubstr("load: the path must be the same on every rank"));
  const auto store = some_store();
  EXPECT_THAT(refused<ContractError>(2,
                                     [&](Job& job) {
                                       job.optimizer->load(
                                           *store, 3,
                                           LoadOptions().allow_extra(job.comm_->rank() == 1));
                                     }),
              HasSubstr("load: the options must be the same on every rank"));
}

TEST(LoadMisuse, OfAPathWithoutAName) {
  EXPECT_EQ(refused<ContractError>(2, [](Job& job) { job.optimizer->load(""); }),
            "load: the path must have a name");
  EXPECT_EQ(refused<ContractError>(2, [](Job& job) { job.optimizer->save(""); }),
            "save: the root must have a name");
}

TEST(LoadMisuse, OfARootWithoutCheckpointsIsNoError) {
  const TemporaryFolder folder;
  on_jobs(2, {}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(folder / "nothing");
    EXPECT_FALSE(report.found);
    job.train(kAfter);
    EXPECT_EQ(first_difference(twin_image(torch::kFloat, kAfter), job.image()), "");
  });
}

/// Changes one bit of the last block of what rank 1 saved.
void damage(const std::string& directory) {
  const std::string path = directory + "/shard-00001-of-00002.h5";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-64, std::ios::end);
  char byte = 0;
  file.get(byte);
  file.seekp(-64, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good());
}

TEST(LoadMisuse, DamageInAFileIsRefusedOrPassedOver) {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  on_jobs(2, {}, [&](Job& job) {
    for (std::int64_t step = 1; step <= 3; ++step) {
      job.train(step);
      job.optimizer->save(root);
    }
  });
  damage(root + "/step_000000000003");
  EXPECT_THAT(refused<FormatError>(2, [&](Job& job) { job.optimizer->load(root); }),
              AllOf(HasSubstr("damaged"), HasSubstr("shard-00001-of-00002.h5")));
  on_jobs(2, {.seed = 3}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(root, LoadOptions().fall_back(true));
    EXPECT_EQ(report.step, 2);
    EXPECT_THAT(report.warnings, ::testing::ElementsAre(
                                     AllOf(HasSubstr("step_000000000003"), HasSubstr("damaged"))));
    job.train(kAfter);
    EXPECT_EQ(first_difference(twin_image(torch::kFloat, kAfter), job.image()), "");
  });
}

}  // namespace
}  // namespace zero::testing
