/// What rebuild() refuses, on every rank, and that training goes on as if it had not been asked.

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "tests/offload/offload_support.h"
#include "tests/optim/rebuild_support.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RebuildMisuse, InTheMiddleOfAWindowIsRefusedAndTheWindowGoesOn) {
  const Snapshot expected = without_accident(2);
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      trainee.window(0);
      trainee.backward(1);
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->rebuild(*trainee.model); }),
                  AllOf(HasSubstr("rebuild: in the middle of a window"),
                        HasSubstr("call step() or zero_grad() first: 3 backward calls")));
      trainee.optimizer->step();
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

/// `change` on rank 1 of two makes rebuild() throw everywhere, `undo` there takes it back.
void expect_refused(const std::function<void(Tiny&)>& change,
                    const std::function<void(Tiny&)>& undo,
                    const ::testing::Matcher<std::string>& message) {
  for (const int world : {2, 3}) {
    expect_no_trace(world, [&](Trainee& trainee) {
      const bool is_odd = trainee.comm->rank() == 1;
      if (is_odd) change(trainee.model);
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->rebuild(*trainee.model); }),
                  message);
      if (is_odd) undo(trainee.model);
    });
  }
}

TEST(RebuildMisuse, AParameterFrozenOnOneRankIsNamedOnAll) {
  expect_refused(
      [](Tiny& model) { model->mixed.requires_grad_(false); },
      [](Tiny& model) { model->mixed.requires_grad_(true); },
      AllOf(HasSubstr("rank 1"), HasSubstr("parameter mixed float32 [5, 4]"), HasSubstr("frozen")));
}

TEST(RebuildMisuse, AParameterResizedOnOneRankIsNamedOnAllAndItsHooksComeBack) {
  std::mutex mutex;
  std::map<std::thread::id, torch::Tensor> kept;
  expect_refused(
      [&](Tiny& model) {
        const std::lock_guard lock(mutex);
        kept[std::this_thread::get_id()] = model->large.detach().clone();
        model->large.set_data(torch::zeros({4, 7}));
      },
      [&](Tiny& model) {
        const std::lock_guard lock(mutex);
        model->large.set_data(kept.at(std::this_thread::get_id()));
      },
      AllOf(HasSubstr("rank 1"), HasSubstr("parameter large float32 [4, 7]")));
}

TEST(RebuildMisuse, WhatTheConstructorRefusesIsRefused) {
  const auto become = [](bool trains) {
    return [trains](Tiny& model) {
      for (auto& parameter : model->parameters()) parameter.requires_grad_(trains);
    };
  };
  expect_refused(become(false), become(true), HasSubstr("no trainable parameter"));
}

TEST(RebuildMisuse, NoTrainableParameterIsLeft) {
  expect_no_trace(2, [](Trainee& trainee) {
    for (auto& parameter : trainee.model->parameters()) parameter.requires_grad_(false);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->rebuild(*trainee.model); }),
                HasSubstr("the model has no trainable parameter"));
    for (auto& parameter : trainee.model->parameters()) parameter.requires_grad_(true);
  });
}

TEST(RebuildMisuse, FreshNamesMustBeTrainableAndTheSameEverywhere) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto rebuild = [&](std::set<std::string> names) {
      return thrown<ContractError>(
          [&] { trainee.optimizer->rebuild(*trainee.model, RebuildOptions().fresh(names)); });
    };
    EXPECT_THAT(rebuild({"bais"}), AllOf(HasSubstr("no trainable parameter"), HasSubstr("bais")));
    const bool is_odd = trainee.comm->rank() == 1;
    EXPECT_THAT(rebuild({is_odd ? "bias" : "gain"}),
                AllOf(HasSubstr("rank 1 has 'parameter bias: starts fresh'"),
                      HasSubstr("rank 0 has 'parameter bias: keeps its state'")));
  });
}

TEST(RebuildMisuse, NamesThatAreTiedNowMustHaveBeenOneParameter) {
  on_every_rank(2, [](const Comm& comm) {
    const Part x{.name = "x", .shape = {50}}, y{.name = "y", .shape = {50}, .seed = 2};
    PartsJob job(comm, Parts(torch::kFloat, {x, y}), parts_options(1));
    job.train(1);
    job.parts.tensors[1].tensor = job.parts.tensors[0].tensor;
    EXPECT_THAT(thrown<ContractError>([&] { job.rebuild(); }),
                AllOf(HasSubstr("tied now"), HasSubstr("x and y")));
    job.rebuild(RebuildOptions().fresh({"x"}));
    job.train(2);
    job.optimizer->shutdown();
  });
}

/// The disk of rank 0 has no room for a second file, or cannot be read: nobody has changed.
TEST(RebuildMisuse, ADiskThatFailsOnOneRankStopsAllAndLeavesNoTrace) {
  for (const bool is_full : {true, false}) {
    const TemporaryFolder folder;
    std::atomic<bool> broken = false;
    const auto calls = std::make_shared<DisturbedCalls>();
    if (is_full) {
      calls->on_allocate = [&] { return broken ? ENOSPC : 0; };
    } else {
      calls->on_pread = [&](int, void*, std::size_t, off_t) -> std::optional<ssize_t> {
        if (broken) return DisturbedCalls::fail(EIO);
        return std::nullopt;
      };
    }
    const Snapshot expected = without_accident(3);
    on_every_rank(2, [&](const Comm& comm) {
      Options options = tiny_options(2);
      Offload offload = in_small_blocks(folder);
      options.offload(comm->rank() == 0 ? offload.calls(calls) : offload);
      Trainee trainee(comm, options);
      trainee.window(0);
      comm->barrier("trained")->wait();
      broken = true;
      EXPECT_THAT(thrown<IoError>([&] { trainee.optimizer->rebuild(*trainee.model); }),
                  HasSubstr("rank 0: "));
      comm->barrier("both have thrown")->wait();
      broken = false;
      trainee.window(1);
      trainee.optimizer->rebuild(*trainee.model);
      trainee.window(2);
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

TEST(RebuildMisuse, ARankThatDiesKillsTheOptimizerOfTheOthers) {
  const auto errors = errors_on_ranks(
      2,
      [](const Comm& comm) {
        Trainee trainee(comm);
        trainee.window(0);
        if (comm->rank() == 1) throw std::runtime_error("gone");
        EXPECT_NE(thrown<CommError>([&] { trainee.optimizer->rebuild(*trainee.model); }), "");
        EXPECT_NE(thrown<CommError>([&] { trainee.optimizer->rebuild(*trainee.model); }), "");
      },
      std::chrono::seconds(5));
  EXPECT_EQ(errors[0], "");
}

TEST(RebuildMisuse, AfterShutdownIsRefused) {
  on_every_rank(1, [](const Comm& comm) {
    Trainee trainee(comm);
    trainee.optimizer->shutdown();
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->rebuild(*trainee.model); }),
                HasSubstr("after shutdown()"));
  });
}

}  // namespace
}  // namespace zero::testing
