// Whatever CUDA or NCCL do wrong becomes an error that names the rank, on every rank, and the
// process can go on with a new communicator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <map>

#include "backends/nccl/nccl.h"
#include "libzero/base/error.h"
#include "libzero/kernels/block_norm.h"
#include "tests/nccl/around.h"
#include "tests/nccl/device_array.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;
using Errors = std::vector<std::string>;

const bool kAround = Around::every_test(std::chrono::microseconds(20));

/// One of each kind of call that moves payload. `native`: sums as NCCL does.
void use(Collective& comm, bool native) {
  const std::int64_t slice = 9000;
  std::vector<float> in(static_cast<std::size_t>(slice * comm.size()), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(slice));
  const std::int64_t all = slice * comm.size();
  ReduceScatterOptions options{false, nullptr, "bucket 7"};
  options.any_order = native;
  const WorkPtr sum = comm.reduce_scatter({in.data(), all, DType::kFloat32},
                                          {out.data(), slice, DType::kFloat32}, options);
  sum->wait();
  comm.all_gather({out.data(), slice, DType::kFloat32}, {in.data(), all, DType::kFloat32}, "whole")
      ->wait();
  comm.all_reduce({out.data(), slice, DType::kFloat32}, ReduceOp::kSum, "norm")->wait();
  comm.broadcast({out.data(), slice, DType::kFloat32}, 0, "start")->wait();
  EXPECT_EQ(out[8999], static_cast<float>(comm.size() * comm.size()));
}

Errors run(int size, milliseconds timeout = fault_test::kPatience, bool native = false) {
  return kRanks.run(size, timeout, [native](Collective& comm) {
    use(comm, native);
    comm.barrier("all are through")->wait();  // whoever is through hears of it in this
    comm.shutdown();
  });
}

class NcclFunction : public ::testing::TestWithParam<const char*> {
 protected:
  /// Lets the function fail on rank 1 (0 where only that calls it) from its `nth` call on. Returns
  /// how many calls failed.
  std::int64_t fail_from(std::int64_t nth, Errors& errors) {
    const std::string name = GetParam();
    const int victim = name == "ncclGetUniqueId" ? 0 : 1;
    const auto calls = std::make_shared<std::atomic<std::int64_t>>(0);
    Weather::now().on_call([=](const std::string& function, int rank) {
      return function == name && rank == victim && ++*calls >= nth ? 2 : 0;
    });
    errors = run(3, fault_test::kPatience, name == "ncclReduceScatter");
    Weather::now().on_call(nullptr);
    return *calls - nth + 1;
  }
};

TEST_P(NcclFunction, ThatFailsIsNamedOnEveryRankAndANewWorldWorks) {
  const std::string name = GetParam();
  int failed_rounds = 0;
  for (const std::int64_t nth : {1, 2, 3, 5, 9, 14, 23, 40}) {
    Errors errors;
    if (fail_from(nth, errors) <= 0) {
      EXPECT_THAT(errors, Each(""));
      continue;
    }
    ++failed_rounds;
    const char* const rank = name == "ncclGetUniqueId" ? "rank 0" : "rank 1";
    EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr(rank), HasSubstr(name))))
        << "from call " << nth << " on";
    EXPECT_THAT(run(3), Each("")) << "a new world after call " << nth << " failed";
  }
  EXPECT_GE(failed_rounds, 1) << "nobody calls it";
}

INSTANTIATE_TEST_SUITE_P(, NcclFunction,
                         ::testing::Values("ncclGetUniqueId", "ncclCommInitRankConfig",
                                           "ncclCommFinalize", "ncclCommDestroy",
                                           "ncclCommGetAsyncError", "ncclGroupStart",
                                           "ncclGroupEnd", "ncclSend", "ncclRecv", "ncclAllGather",
                                           "ncclBroadcast", "ncclReduceScatter", "cudaMalloc",
                                           "cudaStreamCreateWithFlags", "cudaStreamWaitEvent",
                                           "cudaEventCreateWithFlags", "cudaEventRecord",
                                           "cudaEventQuery", "ordered_sum", "ordered_reduce"),
                         [](const auto& instance) { return std::string(instance.param); });

/// What only happens with memory of both kinds: sums of squares that go to the host.
TEST(NcclTrouble, AFunctionThatFailsOnTheWayToTheHostIsNamedOnEveryRank) {
  const std::map<std::string, int> calls_of{
      {"cudaGetDevice", 1},
      {"cudaSetDevice", 1},
      {"cudaPointerGetAttributes", 3},  // of the output, the input, the squares
      {"cudaMallocHost", 3},
      {"cudaMemcpyAsync", 3}};
  for (const auto& [name, most] : calls_of) {
    for (int nth = 1; nth <= most; ++nth) {
      Weather::now().reset(false);
      std::atomic<bool> armed = false;
      std::atomic<int> calls = 0;
      Weather::now().on_call([&, &name = name, nth](const std::string& function, int device) {
        return armed && function == name && device == 1 && ++calls >= nth ? 2 : 0;
      });
      const Errors errors = kRanks.run(3, fault_test::kPatience, [&](Collective& comm) {
        constexpr std::int64_t kSlice = 200'000;  // many pieces
        const DeviceArray in(comm.rank(), 3 * kSlice * 4), out(comm.rank(), kSlice * 4);
        std::vector<double> squares((kSlice + kNormBlock - 1) / kNormBlock);
        comm.barrier("before")->wait();
        current_device() = comm.rank();
        armed = true;
        comm.reduce_scatter({in.as<float>(), 3 * kSlice, DType::kFloat32},
                            {out.as<float>(), kSlice, DType::kFloat32},
                            {false, nullptr, "squares", squares.data()})
            ->wait();
      });
      Weather::now().on_call(nullptr);
      EXPECT_THAT(errors,
                  Each(AllOf(StartsWith("CommError"), HasSubstr("rank 1 failed"), HasSubstr(name))))
          << "from call " << nth << " on";
    }
  }
}

TEST(NcclTrouble, AnAsynchronousErrorOfNcclIsNamedOnEveryRank) {
  Weather::now().on_kernel(
      [](int rank, std::int64_t kernel) { return rank == 1 && kernel == 2 ? 6 : 0; });
  EXPECT_THAT(run(3), Each(AllOf(StartsWith("CommError"), HasSubstr("rank 1 failed"),
                                 HasSubstr("error 6"))));
  Weather::now().on_kernel(nullptr);
  EXPECT_THAT(run(3), Each(""));
}

TEST(NcclTrouble, AKernelThatHangsIsNamedAtTheTimeoutOnEveryRank) {
  Weather::now().on_kernel(
      [](int rank, std::int64_t kernel) { return rank == 1 && kernel == 1 ? -1 : 0; });
  const auto start = Clock::now();
  EXPECT_THAT(run(3, milliseconds(400)),
              Each(AllOf(StartsWith("CommError"), HasSubstr("fell silent"), HasSubstr("#1"),
                         HasSubstr("bucket 7"), HasSubstr("400 ms"))));
  EXPECT_GE(Clock::now() - start, milliseconds(400));
  Weather::now().on_kernel(nullptr);
  EXPECT_THAT(run(3), Each(""));
}

/// CUDA's copy into memory that it does not know returns when all before it is done: never.
TEST(NcclTrouble, AKernelThatHangsHoldsNobodyUpWhoseSumsOfSquaresGoToTheHost) {
  Weather::now().reset(false);
  Weather::now().on_kernel([](int, std::int64_t) { return -1; });
  const auto start = Clock::now();
  std::vector<std::vector<double>> squares(2, std::vector<double>(4, -1.0));
  const Errors errors = kRanks.run(2, milliseconds(400), [&](Collective& comm) {
    const DeviceArray in(comm.rank(), 2 * 256 * 4), out(comm.rank(), 256 * 4);
    comm.reduce_scatter(
            {in.as<float>(), 2 * 256, DType::kFloat32}, {out.as<float>(), 256, DType::kFloat32},
            {false, nullptr, "squares", squares[static_cast<std::size_t>(comm.rank())].data()})
        ->wait();
  });
  EXPECT_THAT(errors,
              Each(AllOf(StartsWith("CommError"), HasSubstr("fell silent"), HasSubstr("400 ms"))));
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
  EXPECT_EQ(squares, std::vector<std::vector<double>>(2, std::vector<double>(4, -1.0)));
}

/// Only one rank launches less than the others: NCCL does not come back from its launch.
TEST(NcclTrouble, ARankWhoseLaunchHangsIsNamedAtTheTimeout) {
  const auto looks = std::make_shared<std::atomic<bool>>(false);
  const auto groups = std::make_shared<std::atomic<int>>(0);
  Weather::now().on_call([=](const std::string& function, int rank) {
    if (rank != 2) return 0;
    if (function == "ncclGroupEnd" && ++*groups == 3) *looks = true;
    return 0;
  });
  Weather::now().on_look([=](int rank) { return rank == 2 && *looks ? 7 : 0; });
  EXPECT_THAT(run(3, milliseconds(400)),
              Each(AllOf(StartsWith("CommError"), HasSubstr("rank 2 came less far"))));
}

TEST(NcclTrouble, AnAbortThatHangsHoldsNobodyUpAndFreesNothing) {
  std::latch release(1);
  std::atomic<int> stuck = 0;
  Weather::now().on_kernel([](int, std::int64_t) { return -1; });
  Weather::now().on_call([&](const std::string& function, int) {
    if (function == "ncclCommAbort") {
      ++stuck;
      release.wait();
      --stuck;
    }
    return 0;
  });
  // Must outlive the GPU, as the error says.
  std::vector<std::vector<float>> data(2, std::vector<float>(100, 1.0f));
  const auto start = Clock::now();
  const Errors errors = kRanks.run(2, milliseconds(300), [&](Collective& comm) {
    float* const mine = data[static_cast<std::size_t>(comm.rank())].data();
    comm.broadcast({mine, 100, DType::kFloat32}, 0, "hangs")->wait();
  });
  EXPECT_THAT(errors,
              Each(AllOf(StartsWith("CommError"), HasSubstr("the GPU of this rank hangs"))));
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
  EXPECT_EQ(stuck, 2);
  release.count_down();
  while (stuck > 0 || !streams_are_idle()) std::this_thread::yield();
}

TEST(NcclTrouble, WorkOutlivesItsCommunicatorAndSaysThatItIsGone) {
  Weather::now().on_kernel([](int, std::int64_t) { return -1; });
  const Errors errors = kRanks.run(2, fault_test::kPatience, [](Collective& comm) {
    std::vector<float> data(10, 1.0f);
    WorkPtr work;
    {
      const auto child = comm.split(0, 0);
      work = child->broadcast({data.data(), 10, DType::kFloat32}, 0, "left alone");
      EXPECT_FALSE(work->test());
      comm.barrier("both have begun")->wait();
    }
    EXPECT_TRUE(work->test());
    work->wait();
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("left without shutdown()"),
                                 HasSubstr("left alone"))));
}

}  // namespace
}  // namespace zero::nccl_test
