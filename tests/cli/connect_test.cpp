#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <vector>

#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"
#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Connect, RanksOfZeroRunMeetOverTheBackendThatWasAskedFor) {
  for (const std::string backend : {"gloo", "shm"}) {
    for (const int size : {1, 3}) {
      const Result result = zero_run(
          {"-n", std::to_string(size), "--timeout", "20", "--backend", backend, "--", RANK_PROBE});
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_THAT(result.err, HasSubstr("backend " + backend));
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_THAT(result.out,
                    HasSubstr("rank " + std::to_string(rank) + " of " + std::to_string(size) +
                              " over " + backend + ": " + std::to_string(size * (size + 1) / 2)));
      }
    }
  }
}

TEST(Connect, AutoMeansSharedMemoryForTheRanksOfOneHost) {
  const Result result = zero_run({"-n", "2", "--timeout", "20", "--", RANK_PROBE});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 1 of 2 over shm: 3"));
  EXPECT_THAT(result.err, HasSubstr("rank 1 of 2 by zero run, backend shm, store at"));
}

/// Ranks that may not make files as large as what they want to share; rank 0 makes it.
std::vector<std::string> ranks_without_room(const std::string& backend) {
  return {"-n",    "2",  "--timeout", "20", "--backend",
          backend, "--", "sh",        "-c", "test $RANK = 1 || ulimit -f 8; exec " RANK_PROBE};
}

TEST(Connect, AutoTakesGlooOnAllRanksIfOneCannotShareMemoryAndSaysWhy) {
  const Result result = zero_run(ranks_without_room("auto"));
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* rank : {"rank 0", "rank 1"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string(rank) + " of 2 over gloo: 3"));
    EXPECT_THAT(result.err, HasSubstr(std::string(rank) + " of 2 by zero run, backend gloo on"));
  }
  EXPECT_THAT(result.err, HasSubstr("cannot talk over shared memory: rank 0: there is not enough"));
}

TEST(Connect, SharedMemoryThatWasAskedForAndCannotBeHadIsAnError) {
  const Result result = zero_run(ranks_without_room("shm"));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("there is not enough memory"), HasSubstr(" bytes: ")));
}

TEST(Connect, AloneMeansTheBackendSelf) {
  const Result result = Launched({RANK_PROBE}).wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "rank 0 of 1 over self: 1\n");
}

/// Ranks as torchrun starts them, without a launcher: rank 0 serves the store.
struct LikeTorchrun {
  explicit LikeTorchrun(int size, std::vector<int> ranks, const std::string& timeout = "20",
                        const std::string& interface_of_rank_1 = "127.0.0.1",
                        const std::vector<std::string>& backends = {"auto", "auto", "auto",
                                                                    "auto"}) {
    const int port = rendezvous::StoreServer({}).port();  // free a moment ago
    for (const int rank : ranks) {
      processes.push_back(
          std::make_unique<Launched>(std::vector<std::string>{RANK_PROBE},
                                     std::map<std::string, std::string>{
                                         {"RANK", std::to_string(rank)},
                                         {"WORLD_SIZE", std::to_string(size)},
                                         {"LOCAL_RANK", std::to_string(rank)},
                                         {"LOCAL_WORLD_SIZE", std::to_string(size)},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"ZERO_INTERFACE", rank == 1 ? interface_of_rank_1 : ""},
                                         {"ZERO_PORT", std::to_string(port)},
                                         {"ZERO_BACKEND", backends[static_cast<std::size_t>(rank)]},
                                         {"ZERO_TIMEOUT", timeout}}));
    }
  }

  std::vector<std::unique_ptr<Launched>> processes;
};

TEST(Connect, RankZeroServesTheStoreUnderTorchrun) {
  LikeTorchrun run(3, {0, 1, 2});
  for (const auto& process : run.processes) {
    const Result result = process->wait();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("over shm: 6"));
  }
}

TEST(Connect, RanksThatWereToldDifferentBackendsHearOfItAtOnce) {
  LikeTorchrun run(2, {0, 1}, "600", "127.0.0.1", {"gloo", "shm"});
  std::string errors;
  for (const auto& process : run.processes) {
    const Result result = process->wait();
    EXPECT_NE(result.code, 0);
    errors += result.err;
  }
  EXPECT_THAT(errors, HasSubstr("set ZERO_BACKEND alike on all"));
}

TEST(Connect, RanksThatDoNotComeAreNamedByAllThatDid) {
  LikeTorchrun run(4, {0, 2}, "1.5");
  for (const auto& process : run.processes) {
    const Result result = process->wait();
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("ranks 1 and 3 did not come within 1500 ms"));
  }
}

TEST(Connect, ARankThatFailsAmidTheMeetingEndsItForTheOthersAtOnce) {
  // An address that is kept for documents, so no machine has it: rank 1 notices when all are there.
  LikeTorchrun run(3, {0, 1, 2}, "600", "192.0.2.1", {"gloo", "gloo", "gloo"});
  EXPECT_EQ(run.processes[1]->wait().code, 1);
  for (const int rank : {0, 2}) {
    const Result result = run.processes[static_cast<std::size_t>(rank)]->wait();
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("rank 1, process "), HasSubstr("left before all ranks had met")));
  }
}

TEST(Connect, ARankZeroThatDoesNotComeIsNamedByItsAddress) {
  LikeTorchrun run(2, {1}, "0.5");
  const Result result = run.processes.front()->wait();
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("is rank 0 or the launcher running")));
}

TEST(Connect, AKilledPeerBecomesAnErrorOfTheOthersBeforeTheyAreTakenDown) {
  Launched launched(
      {ZERO_COMMAND, "run", "-n", "2", "--timeout", "60", "--", RANK_PROBE, "hang-in-rank-1"});
  const pid_t pid = launched.wait_for_pids(1).front();
  ::kill(pid, SIGKILL);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 128 + 9);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("rank 1 was killed by SIGKILL"), HasSubstr("[0] CommError")));
}

TEST(Connect, RanksOfARestartMeetAnewAlsoOnAPortThatTheUserChose) {
  const int port = rendezvous::StoreServer({}).port();  // free a moment ago
  const Result result =
      zero_run({"-n", "4", "--timeout", "20", "--port", std::to_string(port), "--restarts", "1",
                "--min-ranks", "1", "--", RANK_PROBE, "die-in-first-try"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by SIGKILL; restart 1 of 1 with 2 of 4"));
  for (const char* line : {"rank 0 of 4 over shm: 10", "rank 3 of 4 over shm: 10",
                           "rank 0 of 2 over shm: 3", "rank 1 of 2 over shm: 3"}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

TEST(Connect, UnknownBackendsAndBadTimeoutsAreRefusedByName) {
  const auto error = [](const char* name, const char* value) {
    const Result result = Launched({RANK_PROBE}, {{name, value}}).wait();
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_THAT(error("ZERO_BACKEND", "mpi"),
              AllOf(HasSubstr("'mpi'"), HasSubstr("auto, self, shm and gloo")));
  for (const char* bad : {"", "x", "-1", "0", "1s", "1e9", "nan"}) {
    EXPECT_THAT(error("ZERO_TIMEOUT", bad), HasSubstr("ZERO_TIMEOUT")) << bad;
  }
  EXPECT_THAT(error("RANK", "0"), HasSubstr("WORLD_SIZE"));
}

TEST(Connect, ZeroInterfaceChoosesWhereRanksListen) {
  const std::vector<std::string> ranks = {"-n",        "2",    "--timeout", "20",
                                          "--backend", "gloo", "--",        RANK_PROBE};
  for (const char* good : {"lo", "127.0.0.1"}) {
    const Result result = zero_run(ranks, {{"ZERO_INTERFACE", good}});
    EXPECT_EQ(result.code, 0) << good << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("rank 1 of 2 over gloo: 3"));
  }
  // An address that is kept for documents, so no machine has it.
  const Result refused = zero_run(ranks, {{"ZERO_INTERFACE", "192.0.2.1"}});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("192.0.2.1"), HasSubstr("ZERO_INTERFACE")));
}

TEST(Connect, SharedMemoryIsRefusedForRanksOfSeveralHosts) {
  const Result result = Launched({RANK_PROBE}, {{"RANK", "0"},
                                                {"WORLD_SIZE", "2"},
                                                {"LOCAL_RANK", "0"},
                                                {"LOCAL_WORLD_SIZE", "1"},
                                                {"MASTER_ADDR", "127.0.0.1"},
                                                {"MASTER_PORT", "29500"},
                                                {"ZERO_BACKEND", "shm"}})
                            .wait();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("one host"), HasSubstr("world size 2")));
}

TEST(Connect, TheBackendSelfIsRefusedForSeveralRanks) {
  const Result result = zero_run({"-n", "2", "--backend", "self", "--", RANK_PROBE});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("world size 2"));
}

}  // namespace
}  // namespace zero::cli::testing
