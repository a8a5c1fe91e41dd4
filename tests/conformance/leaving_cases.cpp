#include <gtest/gtest.h>

#include <atomic>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

using std::chrono::milliseconds;

void shutdown_waits_for_everybody(const Setting& setting) {
  std::atomic<int> ready = 0;
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    ++ready;
    comm->shutdown();
    EXPECT_EQ(ready.load(), setting.world_size);
  });
}

void second_shutdown_does_nothing(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->shutdown();
    comm->shutdown();
  });
}

void refuses_calls_after_shutdown(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->shutdown();
    Array in = pattern(DType::kFloat32, comm->size(), 1);
    Array out(DType::kFloat32, 1);
    const std::vector<std::function<void()>> calls = {
        [&] { comm->reduce_scatter(in.view(), out.buffer(), {})->wait(); },
        [&] { comm->all_gather(out.view(), in.buffer(), "")->wait(); },
        [&] { comm->all_reduce(out.buffer(), ReduceOp::kSum, "")->wait(); },
        [&] { comm->broadcast(out.buffer(), 0, "")->wait(); },
        [&] { comm->barrier("too late")->wait(); },
        [&] { comm->split(0, 0); },
    };
    for (const auto& call : calls) expect_contains(thrown<ContractError>(call), "shutdown()");
  });
}

void nobody_takes_leaving_for_death(const Setting& setting) {
  for (int i = 0; i < 5; ++i) {
    run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
      comm->barrier("")->wait();
      comm->shutdown();
      comm.reset();
    });
  }
}

void shutdown_of_the_dead_tidies_up(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->abort("enough");
    thrown<CommError>([&] { comm->barrier("")->wait(); });
    const Stopwatch watch;
    comm->shutdown();
    EXPECT_LT(watch.elapsed(), kPatience / 2);
  });
}

void names_the_rank_that_misses_shutdown(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    if (comm->rank() == 0) {
      comm.reset();
      return;
    }
    const std::string text = thrown<CommError>([&] {
      // A backend may hear of the death before this call, and then only tidies up: make it look.
      comm->barrier("")->wait();
    });
    expect_contains(text, "rank 0");
    comm->shutdown();
  });
}

void destructor_does_not_block(const Setting& setting) {
  constexpr milliseconds timeout{2000};
  run_ranks(
      setting,
      [&](std::shared_ptr<Collective>& comm) {
        comm->barrier("")->wait();
        const Stopwatch watch;
        comm.reset();
        EXPECT_LT(watch.elapsed(), timeout + milliseconds(1000));
      },
      timeout);
}

}  // namespace

std::vector<Case> leaving_cases() {
  return {{"ShutdownWaitsForEverybody", shutdown_waits_for_everybody},
          {"SecondShutdownDoesNothing", second_shutdown_does_nothing},
          {"RefusesCallsAfterShutdown", refuses_calls_after_shutdown},
          {"NobodyTakesLeavingForDeath", nobody_takes_leaving_for_death},
          {"ShutdownOfTheDeadTidiesUp", shutdown_of_the_dead_tidies_up},
          {"ShutdownAfterADeathNamesTheRank", names_the_rank_that_misses_shutdown, 2},
          {"DestructorWithoutShutdownDoesNotBlock", destructor_does_not_block}};
}

}  // namespace zero::testing
