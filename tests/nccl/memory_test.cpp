// Payload in the GPU's memory and in the host's; options; the caller's stream.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "backends/nccl/nccl.h"
#include "libzero/base/error.h"
#include "libzero/collective/threads.h"
#include "libzero/kernels/block_norm.h"
#include "tests/nccl/around.h"
#include "tests/nccl/device_array.h"
#include "tests/nccl/fake/apis.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const bool kAround = Around::every_test(std::chrono::microseconds(20));

constexpr milliseconds kPatience = fault_test::kPatience;

/// Runs `body` on every rank; only memory that was allocated on the GPU counts as the GPU's.
void with_both_memories(int size, const std::function<void(Collective&)>& body) {
  Weather::now().reset(false);
  kRanks.run_in_peace(size, body);
}

TEST(NcclMemory, HostMemoryTravelsOverTheHostAndDeviceMemoryOverNccl) {
  std::atomic<int> groups = 0;
  with_both_memories(3, [&](Collective& comm) {
    Weather::now().on_call([&](const std::string& function, int) {
      if (function == "ncclGroupEnd") ++groups;
      return 0;
    });
    comm.barrier("hook is there")->wait();
    std::int64_t vote = comm.rank() + 1;
    comm.all_reduce({&vote, 1, DType::kInt64}, ReduceOp::kMax, "vote")->wait();
    EXPECT_EQ(vote, 3);
    comm.barrier("nobody has used NCCL")->wait();
    EXPECT_EQ(groups, 0);
    comm.barrier("seen by all")->wait();
    const DeviceArray word(comm.rank(), 8);
    *word.as<std::int64_t>() = comm.rank() + 1;
    comm.all_reduce({word.as<std::int64_t>(), 1, DType::kInt64}, ReduceOp::kSum, "vote")->wait();
    EXPECT_EQ(*word.as<std::int64_t>(), 6);
    EXPECT_GE(groups, 1);
  });
}

TEST(NcclMemory, SumsOfSquaresReachTheHostFromTheGpu) {
  with_both_memories(2, [](Collective& comm) {
    constexpr std::int64_t kSlice = 20'003;
    const DeviceArray in(comm.rank(), 2 * kSlice * 4);
    const DeviceArray out(comm.rank(), kSlice * 4);
    for (std::int64_t i = 0; i < 2 * kSlice; ++i) in.as<float>()[i] = 0.1f * static_cast<float>(i);
    std::vector<double> squares((kSlice + kNormBlock - 1) / kNormBlock + 1, -1.0);
    comm.reduce_scatter({in.as<float>(), 2 * kSlice, DType::kFloat32},
                        {out.as<float>(), kSlice, DType::kFloat32},
                        {false, nullptr, "", squares.data()})
        ->wait();
    for (std::size_t b = 0; b + 1 < squares.size(); ++b) {
      const auto begin = static_cast<std::int64_t>(b) * kNormBlock;
      ASSERT_EQ(squares[b], block_sum_of_squares(out.as<float>() + begin,
                                                 std::min(kNormBlock, kSlice - begin)));
    }
    EXPECT_EQ(squares.back(), -1.0);
  });
}

TEST(NcclMemory, RanksThatGiveMemoryOfDifferentKindsAreAllRefusedAndGoOn) {
  with_both_memories(3, [](Collective& comm) {
    std::vector<float> host(100, 3.0f);
    const DeviceArray device(comm.rank(), 400);
    float* const data = comm.rank() == 1 ? host.data() : device.as<float>();
    const std::string text = fault_test::what_of([&] {
      comm.broadcast({data, 100, DType::kFloat32}, 0, "weights")->wait();
    });
    EXPECT_THAT(text, AllOf(StartsWith("ContractError"), HasSubstr("rank 1: host memory"),
                            HasSubstr("ranks 0, 2: the GPU's memory"), HasSubstr("weights")));
    EXPECT_EQ(host, std::vector<float>(100, 3.0f));
    comm.broadcast({host.data(), 100, DType::kFloat32}, 0, "weights")->wait();
  });
}

TEST(NcclMemory, ACallOfBothKindsOfMemoryOrOfAnotherGpuIsRefusedAsNeverMade) {
  with_both_memories(2, [](Collective& comm) {
    std::vector<float> host(100);
    const DeviceArray device(comm.rank(), 400);
    const DeviceArray elsewhere(comm.rank() + 5, 400);
    EXPECT_THAT(fault_test::what_of([&] {
                  comm.all_gather({host.data(), 50, DType::kFloat32},
                                  {device.as<float>(), 100, DType::kFloat32}, "half")
                      ->wait();
                }),
                AllOf(StartsWith("ContractError"), HasSubstr("half")));
    EXPECT_THAT(fault_test::what_of([&] {
                  comm.broadcast({elsewhere.as<float>(), 100, DType::kFloat32}, 0, "")->wait();
                }),
                AllOf(StartsWith("ContractError"), HasSubstr("another GPU")));
    comm.barrier("goes on")->wait();
  });
}

/// What each of two joining ranks throws.
std::vector<std::string> join_with(const std::function<void(int rank, nccl::Options&)>& change) {
  constexpr milliseconds kTimeout{2000};
  auto controls = make_threads(2, kTimeout);
  const auto join_one = [&](int rank, int, std::shared_ptr<KeyValueStore> store, milliseconds) {
    nccl::Options options;
    options.apis = fake_apis();
    options.control = std::move(controls[static_cast<std::size_t>(rank)]);
    options.store = std::move(store);
    options.device = rank;
    options.timeout = kTimeout;
    change(rank, options);
    return nccl::join(std::move(options));
  };
  return fault_test::ThreadRanks(join_one).run(2, kTimeout,
                                               [](Collective& comm) { comm.shutdown(); });
}

TEST(NcclOptions, RanksWithDifferentOptionsAreAllRefused) {
  EXPECT_THAT(join_with([](int, nccl::Options&) {}), Each(""));
  EXPECT_THAT(join_with([](int rank, nccl::Options& o) { o.scratch_bytes = 1000 + rank; }),
              Each(AllOf(StartsWith("ContractError"), HasSubstr("scratch_bytes 1001"))));
  EXPECT_THAT(join_with([](int rank, nccl::Options& options) {
                auto apis = std::make_shared<nccl::Apis>(*options.apis);
                apis->nccl_version += rank;
                options.apis = apis;
              }),
              Each(AllOf(StartsWith("ContractError"), HasSubstr("NCCL 22810"))));
}

/// One bfloat16 reduce_scatter in which the order and the rounding of additions show, of slices of
/// `slice` elements.
std::vector<float> sums(bool any_order, std::int64_t slice) {
  constexpr int kWorld = 4;
  auto ranks = make_light_world(kWorld, kPatience);
  std::vector<std::thread> threads;
  std::vector<float> all(kWorld * slice, 0.5f);
  for (int rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      Collective& comm = *ranks[static_cast<std::size_t>(rank)];
      std::vector<std::uint16_t> in(kWorld * slice);
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] =
            static_cast<std::uint16_t>(0x3f80u + (i * 37 + static_cast<std::size_t>(rank)) % 99);
      }
      float* const out = all.data() + rank * slice;
      std::vector<double> squares(static_cast<std::size_t>(slice / kNormBlock));
      std::int64_t shown = 0;
      ReduceScatterOptions options{true,
                                   [&](std::int64_t begin, std::int64_t count) {
                                     EXPECT_EQ(begin, shown);
                                     shown += count;
                                     EXPECT_NE(out[shown - 1], 0.5f)
                                         << "shown before it was summed";
                                   },
                                   "", squares.data()};
      options.any_order = any_order;
      comm.reduce_scatter({in.data(), kWorld * slice, DType::kBFloat16},
                          {out, slice, DType::kFloat32}, options)
          ->wait();
      EXPECT_EQ(shown, slice);
      for (std::size_t b = 0; b < squares.size(); ++b) {
        ASSERT_EQ(squares[b], block_sum_of_squares(out + static_cast<std::int64_t>(b) * kNormBlock,
                                                   kNormBlock));
      }
      comm.shutdown();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

TEST(NcclOptions, NcclsOwnSumIsNearTheOrderedOneAndNotThatOne) {
  for (const std::int64_t slice : {47 * kNormBlock, 1600 * kNormBlock}) {  // the scratch holds 1024
    const std::vector<float> ordered = sums(false, slice);
    const std::vector<float> native = sums(true, slice);
    EXPECT_NE(ordered, native);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      ASSERT_NEAR(ordered[i], native[i], 0.02f * std::fabs(ordered[i]));
    }
  }
}

TEST(NcclOptions, RanksOfWhichSomeAskForAnyOrderAreAllRefused) {
  const auto errors = kRanks.run(2, kPatience, [](Collective& comm) {
    std::vector<float> in(8, 1), out(4);
    ReduceScatterOptions options;
    options.any_order = comm.rank() == 1;
    EXPECT_THAT(
        fault_test::what_of([&] {
          comm.reduce_scatter({in.data(), 8, DType::kFloat32}, {out.data(), 4, DType::kFloat32},
                              options)
              ->wait();
        }),
        AllOf(StartsWith("ContractError"), HasSubstr("rank 1: "), HasSubstr("in any order")));
    comm.barrier("goes on")->wait();
    comm.shutdown();
  });
  EXPECT_THAT(errors, Each(""));
}

std::shared_ptr<Collective> alone() {
  nccl::Options options;
  options.apis = fake_apis();
  options.control = make_threads(1, kPatience)[0];
  options.store = make_memory_store();
  return nccl::join(std::move(options));
}

/// The caller's kernels are still on their stream when the call is made.
TEST(NcclMemory, ACallWaitsForTheCallersStream) {
  for (const bool own_stream : {false, true}) {
    nccl::CudaStream stream = nullptr;
    const nccl::CudaApi cuda = fake_cuda();
    if (own_stream) cuda.stream_create_with_flags(&stream, nccl::kCudaStreamNonBlocking);
    const auto comm = alone();
    comm->follow_stream(stream);
    std::vector<float> in(5000, 0.0f);
    std::vector<float> out(5000, 0.0f);
    std::promise<void> later;
    FakeStream::of(stream).put([&in, go = later.get_future().share()] {
      go.wait();
      in.assign(in.size(), 2.0f);
    });
    const WorkPtr work =
        comm->reduce_scatter({in.data(), 5000, DType::kFloat32},
                             {out.data(), 5000, DType::kFloat32}, {false, nullptr, "early"});
    EXPECT_FALSE(work->test());
    EXPECT_EQ(out[0], 0.0f);
    later.set_value();
    work->wait();
    EXPECT_EQ(out, std::vector<float>(5000, 2.0f));
    comm->shutdown();
    if (own_stream) cuda.stream_destroy(stream);
  }
}

TEST(NcclMemory, AStreamThatWorkLeadsWaitsForItAndTheHostDoesNot) {
  const nccl::CudaApi cuda = fake_cuda();
  nccl::CudaStream given = nullptr, led = nullptr;
  cuda.stream_create_with_flags(&given, nccl::kCudaStreamNonBlocking);
  cuda.stream_create_with_flags(&led, nccl::kCudaStreamNonBlocking);
  const auto comm = alone();
  comm->follow_stream(given);
  const std::vector<float> in(5000, 2.0f);
  std::vector<float> out(5000, 0.0f), seen;
  std::promise<void> later, read;
  FakeStream::of(given).put([go = later.get_future().share()] { go.wait(); });
  const WorkPtr work =
      comm->reduce_scatter({in.data(), 5000, DType::kFloat32}, {out.data(), 5000, DType::kFloat32},
                           {false, nullptr, "early"});
  EXPECT_TRUE(work->lead_stream(led));
  EXPECT_FALSE(work->test());
  FakeStream::of(led).put([&] {
    seen = out;
    read.set_value();
  });
  later.set_value();
  read.get_future().wait();
  EXPECT_EQ(seen, std::vector<float>(5000, 2.0f));
  work->wait();
  EXPECT_TRUE(work->lead_stream(led));
  comm->shutdown();
  cuda.stream_destroy(given);
  cuda.stream_destroy(led);
}

TEST(NcclMemory, WorkThatTheHostHasToEndLeadsNoStreamBefore) {
  Weather::now().reset(/*all_is_device_memory=*/false);
  const auto comm = alone();
  const DeviceArray in(0, 64 * 4), out(0, 64 * 4);
  double squares = -1;
  const WorkPtr work = comm->reduce_scatter(
      {in.as<float>(), 64, DType::kFloat32}, {out.as<float>(), 64, DType::kFloat32},
      {false, nullptr, "squares that go to the host", &squares});
  EXPECT_FALSE(work->lead_stream(nullptr));
  work->wait();
  EXPECT_GE(squares, 0.0);
  EXPECT_TRUE(work->lead_stream(nullptr));
  comm->shutdown();
}

}  // namespace
}  // namespace zero::nccl_test
