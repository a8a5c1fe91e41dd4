#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <thread>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

using std::chrono::milliseconds;

// "At once", on a machine that does other things too.
constexpr milliseconds kAtOnce{2000};

bool is_last(const Collective& comm) {
  return comm.rank() == comm.size() - 1;
}

std::string last_rank_of(const Setting& setting) {
  return "rank " + std::to_string(setting.world_size - 1);
}

/// The last rank comes to collective #2 only after all others have given up.
void names_the_rank_that_is_late(const Setting& setting) {
  constexpr milliseconds timeout{1000};
  std::latch given_up(setting.world_size - 1);
  run_ranks(
      setting,
      [&](std::shared_ptr<Collective>& comm) {
        comm->barrier("all here")->wait();
        if (is_last(*comm)) {
          given_up.wait();
          thrown<CommError>([&] { comm->barrier("step vote")->wait(); });
          return;
        }
        const Stopwatch watch;
        const std::string text = thrown<CommError>([&] { comm->barrier("step vote")->wait(); });
        EXPECT_LT(watch.elapsed(), timeout + kAtOnce);
        given_up.count_down();
        expect_contains(text, last_rank_of(setting));
        expect_contains(text, "#2");
        expect_contains(text, "step vote");
      },
      timeout);
}

/// Every kind of call ends when another thread calls abort() on one rank, and says why on all.
void abort_reaches_everybody(const Setting& setting,
                             const std::function<WorkPtr(Collective&, Array&, Array&)>& call) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->barrier("all here")->wait();
    Array in = pattern(DType::kFloat32, comm->size(), 1);
    Array out(DType::kFloat32, 1);
    const Stopwatch watch;
    std::string text;
    if (is_last(*comm)) {
      std::thread([&] { comm->abort("operator pressed stop"); }).join();
      text = thrown<CommError>([&] { comm->barrier("")->wait(); });
    } else {
      text = thrown<CommError>([&] { call(*comm, in, out)->wait(); });
    }
    EXPECT_LT(watch.elapsed(), kAtOnce);
    expect_contains(text, "operator pressed stop");
  });
}

void abort_ends_reduce_scatter(const Setting& setting) {
  abort_reaches_everybody(setting, [](Collective& comm, Array& in, Array& out) {
    return comm.reduce_scatter(in.view(), out.buffer(), {});
  });
}

void abort_ends_all_gather(const Setting& setting) {
  abort_reaches_everybody(setting, [](Collective& comm, Array& in, Array& out) {
    return comm.all_gather(out.view(), in.buffer(), "");
  });
}

void abort_ends_barrier(const Setting& setting) {
  abort_reaches_everybody(setting,
                          [](Collective& comm, Array&, Array&) { return comm.barrier(""); });
}

/// A rank that waits is freed by its own abort, called from another thread.
void abort_frees_the_rank_that_waits(const Setting& setting) {
  std::latch freed(setting.world_size - 1);
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    if (is_last(*comm)) {
      freed.wait();
      comm->abort("never came");
      return;
    }
    std::latch about_to_wait(1);
    std::thread aborter([&] {
      about_to_wait.wait();
      comm->abort("gave up waiting");
    });
    about_to_wait.count_down();
    expect_contains(thrown<CommError>([&] { comm->barrier("")->wait(); }), "gave up waiting");
    aborter.join();
    freed.count_down();
  });
}

void dead_is_dead(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->abort("first reason");
    comm->abort("second reason");
    Array in = pattern(DType::kFloat32, comm->size(), 1);
    Array out(DType::kFloat32, 1);
    const std::vector<std::function<void()>> calls = {
        [&] { comm->reduce_scatter(in.view(), out.buffer(), {})->wait(); },
        [&] { comm->all_gather(out.view(), in.buffer(), "")->wait(); },
        [&] { comm->all_reduce(out.buffer(), ReduceOp::kSum, "")->wait(); },
        [&] { comm->broadcast(out.buffer(), 0, "")->wait(); },
        [&] { comm->barrier("")->wait(); },
        [&] { comm->split(0, 0); },
    };
    for (const auto& call : calls) {
      const std::string text = thrown<CommError>(call);
      expect_contains(text, "first reason");
      EXPECT_EQ(text.find("second reason"), std::string::npos) << text;
    }
  });
}

/// The last rank drops its communicator, before or while the others wait for it.
void names_the_rank_that_died(const Setting& setting, bool before_others_call) {
  std::latch dead(1);
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->barrier("all here")->wait();
    if (is_last(*comm)) {
      comm.reset();
      dead.count_down();
      return;
    }
    if (before_others_call) dead.wait();
    const Stopwatch watch;
    const std::string text = thrown<CommError>([&] { comm->barrier("step vote")->wait(); });
    EXPECT_LT(watch.elapsed(), kAtOnce);
    expect_contains(text, last_rank_of(setting));
    expect_contains(text, "step vote");
  });
}

}  // namespace

std::vector<Case> failure_cases() {
  return {{"NamesTheRankThatIsLate", names_the_rank_that_is_late, 2},
          {"AbortEndsReduceScatterEverywhere", abort_ends_reduce_scatter, 2},
          {"AbortEndsAllGatherEverywhere", abort_ends_all_gather, 2},
          {"AbortEndsBarrierEverywhere", abort_ends_barrier, 2},
          {"AbortFreesTheRankThatWaits", abort_frees_the_rank_that_waits, 2},
          {"DeadIsDeadAndTheFirstReasonStands", dead_is_dead},
          {"NamesTheRankThatDiedWhileOthersWait",
           [](const Setting& s) { names_the_rank_that_died(s, false); }, 2},
          {"NamesTheRankThatDiedBefore",
           [](const Setting& s) { names_the_rank_that_died(s, true); }, 2}};
}

}  // namespace zero::testing
