// Memory that NCCL is told of: on every rank or on none, and forgotten before anything ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/collective/recorder.h"
#include "libzero/collective/testing/faults.h"
#include "tests/nccl/around.h"
#include "tests/nccl/device_array.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const bool kAround = Around::every_test(std::chrono::microseconds(20));

constexpr std::int64_t kSlice = 20'000;

/// Memory with its token.
struct Arena {
  Arena(Collective& comm, std::int64_t bytes)
      : memory(comm.device_memory(bytes)), token(comm.register_memory(memory.get(), bytes)) {}

  float* floats() const { return static_cast<float*>(memory.get()); }

  std::shared_ptr<void> memory;
  std::shared_ptr<void> token;  // goes first
};

void in_peace(int size, const std::function<void(Collective&)>& body) {
  Weather::now().reset(false);
  kRanks.run_in_peace(size, body);
}

/// One of each call, over buffers in the arenas.
void use(Collective& comm, float* in, float* out) {
  const std::int64_t all = kSlice * comm.size();
  std::fill(in, in + all, 1.0f);
  comm.reduce_scatter({in, all, DType::kFloat32}, {out, kSlice, DType::kFloat32},
                      {false, nullptr, "sum"})
      ->wait();
  float* const own = in + comm.rank() * kSlice;
  std::copy(out, out + kSlice, own);
  comm.all_gather({own, kSlice, DType::kFloat32}, {in, all, DType::kFloat32}, "gather")->wait();
  comm.all_reduce({in, all, DType::kFloat32}, ReduceOp::kSum, "norm")->wait();
  comm.broadcast({in, all, DType::kFloat32}, 0, "start")->wait();
  for (std::int64_t i = 0; i < all; ++i)
    ASSERT_EQ(in[i], static_cast<float>(comm.size() * comm.size()));
}

TEST(NcclRegistered, BuffersOnEveryRankGiveTheSameNumbers) {
  in_peace(3, [](Collective& comm) {
    const Arena in(comm, 3 * kSlice * 4);
    const DeviceArray out(comm.rank(), kSlice * 4);
    ASSERT_NE(in.token, nullptr);
    use(comm, in.floats(), out.as<float>());
    use(comm, in.floats(), out.as<float>());
    const DeviceArray elsewhere(comm.rank(), 3 * kSlice * 4);
    use(comm, elsewhere.as<float>(), out.as<float>());
  });
}

TEST(NcclRegistered, MemoryThatIsNotNcclsOwnIsLeftAloneOnEveryRank) {
  Weather::now().reset(false);
  std::atomic<int> calls = 0;
  Weather::now().on_call([&](const std::string& function, int) {
    if (function == "ncclCommRegister") ++calls;
    return 0;
  });
  kRanks.run_in_peace(2, [](Collective& comm) {
    const auto memory = comm.device_memory(100);
    const DeviceArray array(comm.rank(), 100);
    std::vector<char> host(100);
    void* const mixed = comm.rank() == 0 ? memory.get() : array.as<char>();
    EXPECT_EQ(comm.register_memory(mixed, 100), nullptr);
    EXPECT_EQ(comm.register_memory(host.data(), 100), nullptr);
    // More than there is; and one rank's part may be empty.
    EXPECT_EQ(comm.register_memory(memory.get(), 101), nullptr);
    EXPECT_EQ(comm.register_memory(memory.get(), comm.rank() * 100), nullptr);
  });
  Weather::now().on_call(nullptr);
  EXPECT_EQ(calls, 0);
}

TEST(NcclRegistered, WhatOneRankCannotRegisterNobodyDoesAndCallsWorkJustTheSame) {
  for (const std::string name : {"ncclCommRegister", "ncclMemAlloc"}) {
    for (const int nth : {1, 2}) {
      Weather::now().reset(false);
      std::atomic<int> calls = 0;
      Weather::now().on_call([&](const std::string& function, int rank) {
        return function == name && rank == 1 && ++calls == nth ? 2 : 0;
      });
      kRanks.run_in_peace(3, [&](Collective& comm) {
        current_device() = comm.rank();
        const Arena in(comm, 3 * kSlice * 4);
        EXPECT_EQ(in.token, nullptr);
        const DeviceArray plain(comm.rank(), 4 * kSlice * 4);
        float* const memory = in.memory ? in.floats() : plain.as<float>();
        use(comm, memory, plain.as<float>() + 3 * kSlice);
        const Arena again(comm, 3 * kSlice * 4);
        EXPECT_NE(again.token, nullptr);
        use(comm, again.floats(), plain.as<float>());
      });
      Weather::now().on_call(nullptr);
      EXPECT_GE(calls, nth) << name;
    }
  }
}

TEST(NcclRegistered, ACallThatIsRegisteredOnSomeRanksOnlyIsRefusedOnAll) {
  in_peace(3, [](Collective& comm) {
    const Arena arena(comm, kSlice * 4);
    const DeviceArray plain(comm.rank(), kSlice * 4);
    float* const data = comm.rank() == 1 ? plain.as<float>() : arena.floats();
    EXPECT_THAT(fault_test::what_of([&] {
                  comm.broadcast({data, kSlice, DType::kFloat32}, 0, "mixed")->wait();
                }),
                AllOf(StartsWith("ContractError"), HasSubstr("mixed"),
                      HasSubstr("ranks 0, 2: the GPU's memory, registered"),
                      HasSubstr("rank 1: the GPU's memory")));
    comm.barrier("goes on")->wait();
  });
}

TEST(NcclRegistered, AGatherWithOneRegisteredBufferMustBeThatOnEveryRank) {
  in_peace(2, [](Collective& comm) {
    const Arena arena(comm, 2 * kSlice * 4);
    const DeviceArray plain(comm.rank(), 2 * kSlice * 4);
    const auto gather = [&](const float* in, float* out) {
      return fault_test::what_of([&] {
        comm.all_gather({in, kSlice, DType::kFloat32}, {out, 2 * kSlice, DType::kFloat32}, "g")
            ->wait();
      });
    };
    EXPECT_EQ(gather(plain.as<float>(), arena.floats()), "");
    EXPECT_EQ(gather(arena.floats(), plain.as<float>()), "");
    const bool first = comm.rank() == 0;
    EXPECT_THAT(gather(first ? plain.as<float>() : arena.floats(),
                       first ? arena.floats() : plain.as<float>()),
                HasSubstr("rank 1: the GPU's memory, the input registered"));
  });
}

TEST(NcclRegistered, TokensMayOutliveWhatTheyBelongToInAnyOrder) {
  Weather::now().reset(false);
  std::vector<std::shared_ptr<void>> tokens(2), memories(2);
  kRanks.run_in_peace(2, [&](Collective& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    memories[r] = comm.device_memory(400);
    tokens[r] = comm.register_memory(memories[r].get(), 400);
    EXPECT_NE(tokens[r], nullptr);
    auto second = comm.register_memory(memories[r].get(), 200);
    EXPECT_NE(second, nullptr);
    second.reset();
    const auto child = comm.split(0, 0);
    auto of_child = child->register_memory(memories[r].get(), 400);
    EXPECT_NE(of_child, nullptr);
    child->shutdown();
    of_child.reset();
  });
  tokens.clear();
  memories.clear();
}

TEST(NcclRegistered, TokensOfADeadCommunicatorAreHarmless) {
  for (const bool before : {false, true}) {
    Weather::now().reset(false);
    Weather::now().on_kernel([](int, std::int64_t kernel) { return kernel == 2 ? -1 : 0; });
    std::vector<std::shared_ptr<void>> tokens(2), memories(2);
    const auto errors = kRanks.run(2, milliseconds(400), [&](Collective& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      memories[r] = comm.device_memory(400);
      auto token = comm.register_memory(memories[r].get(), 400);
      if (!before) tokens[r] = token;
      auto* const data = static_cast<float*>(memories[r].get());
      comm.broadcast({data, 100, DType::kFloat32}, 0, "fine")->wait();
      comm.broadcast({data, 100, DType::kFloat32}, 0, "hangs")->wait();
    });
    Weather::now().on_kernel(nullptr);
    EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("fell silent"))));
    tokens.clear();
    memories.clear();
  }
}

/// The memory goes at once: whoever drops the token must not do so before the GPU has stopped.
TEST(NcclRegistered, ATokenThatIsDroppedWhileItsCommunicatorDiesWaitsForTheGpu) {
  Weather::now().reset(false);
  Weather::now().on_kernel([](int, std::int64_t) { return -1; });
  const auto errors = kRanks.run(2, fault_test::kPatience, [&](Collective& comm) {
    auto memory = comm.device_memory(400);
    auto token = comm.register_memory(memory.get(), 400);
    const WorkPtr work = comm.broadcast({memory.get(), 100, DType::kFloat32}, 0, "hangs");
    if (comm.rank() == 0) {
      comm.abort("enough");
      token.reset();
      memory.reset();
    }
    work->wait();
  });
  EXPECT_THAT(errors, Each(StartsWith("CommError")));
}

TEST(NcclRegistered, WrappersPassItOn) {
  in_peace(2, [](Collective& comm) {
    const std::shared_ptr<Collective> inner(&comm, [](Collective*) {});
    for (const auto& outer : {record_calls(inner).collective, testing::with_faults(inner, {})}) {
      const auto memory = outer->device_memory(100);
      ASSERT_NE(memory, nullptr);
      EXPECT_NE(outer->register_memory(memory.get(), 100), nullptr);
    }
  });
}

}  // namespace
}  // namespace zero::nccl_test
