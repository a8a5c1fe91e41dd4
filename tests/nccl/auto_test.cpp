// Which backend `auto` is where ranks train on GPUs, and what `nccl` refuses. Ranks are threads
// that load the fake machine by its names, or processes where none of them gets as far as NCCL.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "backends/connect.h"
#include "backends/nccl/cuda_api.h"
#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"
#include "tests/cli/launched.h"

namespace zero::nccl_test {
namespace {

using cli::testing::Result;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::chrono::milliseconds kPatience{20'000};

using Variables = std::map<std::string, std::string>;

/// Where this backend's libraries are looked for: all three in one.
Variables fake_machine() {
  return {{"ZERO_NCCL_LIBRARY", ZERO_FAKE_MACHINE},
          {"ZERO_CUDART_LIBRARY", ZERO_FAKE_MACHINE},
          {"ZERO_PLUGIN_PATH", ZERO_FAKE_MACHINE_FOLDER}};
}

/// Sets variables of this process for as long as it lives.
class WithVariables {
 public:
  explicit WithVariables(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~WithVariables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  WithVariables(const WithVariables&) = delete;
  WithVariables& operator=(const WithVariables&) = delete;

 private:
  const Variables variables_;
};

/// A function of the fake machine that connect() has loaded.
template <class Function>
Function* machine(const char* symbol) {
  void* const handle = dlopen(ZERO_FAKE_MACHINE, RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle, symbol));
}

void* memory_of_gpu(int gpu) {
  void* memory = nullptr;
  machine<int(int)>("cudaSetDevice")(gpu);
  machine<int(void**, std::size_t)>("cudaMalloc")(&memory, 4096);
  return memory;
}

/// What became of one rank.
struct Outcome {
  std::string error;
  std::string backend;
  std::vector<std::string> warnings;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.backend << ", error '" << outcome.error << "', warnings "
             << ::testing::PrintToString(outcome.warnings);
}

using Gpus = std::vector<std::optional<int>>;

/// One rank as a thread; `use` runs before the orderly end.
Outcome run_rank(ConnectOptions options, const std::function<void(Collective&)>& use) {
  Outcome outcome;
  options.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) outcome.warnings.emplace_back(line);
  };
  try {
    const auto comm = connect(options);
    outcome.backend = comm->backend();
    if (use) use(*comm);
    comm->shutdown();
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

std::vector<Outcome> connect_ranks(const std::string& backend, const Gpus& gpus,
                                   const std::function<void(Collective&)>& use = nullptr) {
  const rendezvous::StoreServer server({});
  std::vector<Outcome> outcomes(gpus.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    ConnectOptions options;
    options.backend = backend;
    options.gpu = gpus[r];
    options.timeout = kPatience;
    Topology topology;
    topology.rank = topology.local_rank = static_cast<int>(r);
    topology.size = topology.local_size = static_cast<int>(gpus.size());
    topology.store_port = server.port();
    options.topology = topology;
    threads.emplace_back([&outcomes, &use, r, options] { outcomes[r] = run_rank(options, use); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

::testing::Matcher<const Outcome&> went_over(const std::string& backend) {
  return AllOf(::testing::Field(&Outcome::error, ""), ::testing::Field(&Outcome::backend, backend),
               ::testing::Field(&Outcome::warnings, SizeIs(0)));
}
/// Went over the backend of ranks without GPUs, and said why in one line.
::testing::Matcher<const Outcome&> did_without_nccl(const std::string& why) {
  return AllOf(
      ::testing::Field(&Outcome::error, ""), ::testing::Field(&Outcome::backend, "shm"),
      ::testing::Field(&Outcome::warnings,
                       ::testing::ElementsAre(AllOf(HasSubstr("NCCL cannot be used: " + why),
                                                    HasSubstr("over shm"), Not(HasSubstr("\n"))))));
}
::testing::Matcher<const Outcome&> was_refused(const std::string& why) {
  return ::testing::Field(&Outcome::error,
                          AllOf(HasSubstr("the backend nccl needs"), HasSubstr(why)));
}

/// A sum over memory of the GPU that this rank said it has.
void sum_on_gpu(Collective& comm, int gpu) {
  EXPECT_TRUE(comm.takes_device_memory());
  auto* const word = static_cast<std::int64_t*>(memory_of_gpu(gpu));
  *word = comm.rank() + 1;
  comm.all_reduce({word, 1, DType::kInt64}, ReduceOp::kSum, "sum")->wait();
  EXPECT_EQ(*word, comm.size() * (comm.size() + 1) / 2);
}

TEST(AutoBackend, IsNcclWhereEveryRankTrainsOnAGpuOfItsOwn) {
  const WithVariables variables(fake_machine());
  for (const int size : {2, 4}) {
    Gpus gpus;
    for (int r = 0; r < size; ++r) gpus.emplace_back(size - 1 - r);
    EXPECT_THAT(connect_ranks("auto", gpus,
                              [&](Collective& comm) { sum_on_gpu(comm, size - 1 - comm.rank()); }),
                Each(went_over("nccl")));
  }
}

TEST(AutoBackend, NcclUsesTheGpuThatWasChosenAndNoOther) {
  const WithVariables variables(fake_machine());
  for (const std::string backend : {"auto", "nccl"}) {
    const auto outcomes = connect_ranks(backend, {7, 3}, [](Collective& comm) {
      auto* const elsewhere = static_cast<float*>(memory_of_gpu(comm.rank()));
      comm.broadcast({elsewhere, 1, DType::kFloat32}, 0, "elsewhere")->wait();
    });
    for (const Outcome& outcome : outcomes)
      EXPECT_THAT(outcome.error, HasSubstr("another GPU")) << backend;
    EXPECT_THAT(outcomes[0].error, HasSubstr("the communicator on 7"));
    EXPECT_THAT(outcomes[1].error, HasSubstr("the communicator on 3"));
  }
}

TEST(AutoBackend, WithoutGpusNothingIsLoadedNorSaid) {
  const WithVariables variables({{"ZERO_NCCL_LIBRARY", "/no/such/libnccl.so"}});
  EXPECT_THAT(connect_ranks("auto", {std::nullopt, std::nullopt}), Each(went_over("shm")));
}

TEST(AutoBackend, OneRankOnAGpuNeedsNoNccl) {
  const WithVariables variables({{"ZERO_NCCL_LIBRARY", "/no/such/libnccl.so"}});
  ConnectOptions options;
  options.backend = "auto";
  options.gpu = 0;
  options.topology.emplace();
  EXPECT_THAT(run_rank(options, nullptr), went_over("self"));
}

TEST(AutoBackend, AMixtureOfRanksWithAndWithoutGpusDoesWithoutNcclAndSaysSo) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(connect_ranks("auto", {0, std::nullopt, 1, std::nullopt}),
              Each(did_without_nccl("ranks 1 and 3 on no GPU, others on one")));
}

TEST(AutoBackend, RanksThatShareAGpuDoWithoutNcclAndSaySo) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(connect_ranks("auto", {0, 1, 2, 1}),
              Each(did_without_nccl("ranks 1 and 3 share one GPU")));
}

TEST(AutoBackend, AGpuThatTheRuntimeDoesNotHaveIsSaid) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(connect_ranks("auto", {0, 64}),
              Each(did_without_nccl("rank 1: the CUDA runtime does not have this rank's GPU: "
                                    "number 64 (from 0), GPUs 64")));
}

TEST(AutoBackend, MissingLibrariesAreNamedOnEveryRank) {
  const WithVariables variables({{"ZERO_NCCL_LIBRARY", "/no/such/libnccl.so"}});
  EXPECT_THAT(connect_ranks("auto", {0, 1}),
              Each(did_without_nccl("rank 0: NCCL does not load: /no/such/libnccl.so")));
}

TEST(AutoBackend, SharedMemoryOrGlooThatWasAskedForIsWhatItIs) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(connect_ranks("shm", {0, 1}), Each(went_over("shm")));
}

TEST(NcclBackend, RanksThatShareAGpuAreAllRefusedWithTheReason) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(connect_ranks("nccl", {5, 2, 5}), Each(was_refused("ranks 0 and 2 share one GPU")));
}

TEST(NcclBackend, AGpuThatTheRuntimeDoesNotHaveIsRefusedAtOnce) {
  const WithVariables variables(fake_machine());
  ConnectOptions options;
  options.backend = "nccl";
  options.gpu = 64;
  options.topology.emplace();
  options.topology->size = options.topology->local_size = 2;
  EXPECT_THAT(run_rank(options, nullptr).error,
              AllOf(HasSubstr("ConnectOptions::gpu"), HasSubstr("number 64")));
}

TEST(NcclBackend, TakesTheGpuOfTheLocalRankWhereNoneWasChosen) {
  const WithVariables variables(fake_machine());
  EXPECT_THAT(
      connect_ranks("nccl", Gpus(4), [](Collective& comm) { sum_on_gpu(comm, comm.rank()); }),
      Each(went_over("nccl")));
}

TEST(NcclBackend, OneRankSumsOnItsGpu) {
  const WithVariables variables(fake_machine());
  ConnectOptions options;
  options.backend = "nccl";
  options.gpu = 9;
  options.topology.emplace();
  EXPECT_THAT(run_rank(options, [](Collective& comm) { sum_on_gpu(comm, 9); }), went_over("nccl"));
}

/// Ranks of `zero run`, each with what `script` sets for it.
Result zero_run(int ranks, const std::string& script, const std::string& backend = "auto") {
  return cli::testing::zero_run({"-n", std::to_string(ranks), "--timeout", "20", "--backend",
                                 backend, "--", "sh", "-c", script},
                                fake_machine());
}

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (const std::string& line : cli::testing::lines_of(text)) {
    if (line.find(part) != line.npos) ++count;
  }
  return count;
}

TEST(AutoBackendOfProcesses, WhatOneRankLacksIsNamedByAllAndNobodyWaits) {
  const Result result = zero_run(
      3, "test $RANK = 1 && export ZERO_NCCL_LIBRARY=/no/such/libnccl.so; exec " GPU_RANK " local");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result.out, "over shm: 6"), 3) << result.out;
  EXPECT_EQ(
      lines_with(result.err, "NCCL cannot be used: rank 1: NCCL does not load: /no/such/libnccl"),
      3)
      << result.err;
}

TEST(AutoBackendOfProcesses, RanksThatShareAGpuFindOutAcrossProcesses) {
  const Result result = zero_run(2, "exec " GPU_RANK " 4");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result.err, "NCCL cannot be used: ranks 0 and 1 share one GPU"), 2)
      << result.err;
}

TEST(AutoBackendOfProcesses, StrictNcclIsRefusedOnEveryRankWhereTwoShareAGpu) {
  const Result result = zero_run(2, "exec " GPU_RANK " 4", "nccl");
  EXPECT_NE(result.code, 0);
  EXPECT_GE(lines_with(result.err, "ranks 0 and 1 share one GPU"), 1) << result.err;
}

TEST(AutoBackendOfProcesses, TheLocalRankOfZeroRunGivesEachOfEightRanksAGpuOfItsOwn) {
  // The last one has none, so that nobody tries to meet over this process's own machine.
  const Result result =
      zero_run(8, "test $RANK = 7 && exec " GPU_RANK " -; exec " GPU_RANK " local");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(lines_with(result.err, "NCCL cannot be used: rank 7 on no GPU, others on one"), 8)
      << result.err;
  for (int r = 0; r < 7; ++r)
    EXPECT_EQ(lines_with(result.out, "trains on GPU " + std::to_string(r)), 1) << result.out;
}

}  // namespace
}  // namespace zero::nccl_test
