// Random schedules of calls over a machine in which everything comes late: the bits of `threads`.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "libzero/collective/call_header.h"
#include "libzero/collective/threads.h"
#include "libzero/kernels/block_norm.h"
#include "tests/nccl/around.h"
#include "tests/nccl/device_array.h"
#include "tests/nccl/world.h"

namespace zero::nccl_test {
namespace {

const bool kAround = Around::every_test(std::chrono::microseconds(30));

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

/// The same on every rank.
struct Call {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kFloat32;
  std::int64_t count = 0;  // a slice's, where there are slices
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool accumulate = false;
  bool squares = false;
  bool epilogue = false;
  bool in_place = false;
  bool on_host = false;
  bool in_registered = false;
  bool out_registered = false;
  std::uint64_t seed = 0;
};

Call random_call(Random& random, int size) {
  constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  constexpr std::int64_t kLimits[] = {3, 70, 5000, 20'000};
  Call call;
  const std::int64_t kind = below(random, 10);
  call.operation = kind < 5   ? Operation::kReduceScatter
                   : kind < 7 ? Operation::kAllGather
                   : kind < 8 ? Operation::kAllReduce
                   : kind < 9 ? Operation::kBroadcast
                              : Operation::kBarrier;
  call.dtype = kFloats[below(random, 3)];
  call.count = below(random, kLimits[below(random, 4)]);
  call.root = static_cast<int>(below(random, size));
  call.accumulate = below(random, 2) == 0;
  call.squares = below(random, 2) == 0;
  call.epilogue = below(random, 6) == 0;
  call.in_place = below(random, 2) == 0;
  call.on_host = below(random, 5) == 0;
  call.in_registered = !call.on_host && below(random, 8) == 0;
  call.out_registered = !call.on_host && below(random, 8) == 0;
  call.seed = random();
  if (call.operation == Operation::kAllReduce && below(random, 3) == 0) {
    call.dtype = DType::kInt64;
    if (below(random, 2) == 0) call.op = ReduceOp::kMax;
  }
  return call;
}

/// Memory of any kind.
class Bytes {
 public:
  Bytes(bool on_host, bool registered, Collective& comm, std::int64_t bytes)
      : bytes_(bytes), host_(on_host ? static_cast<std::size_t>(bytes) + 1 : 0) {
    if (on_host) return;
    if (registered) {
      registered_ = comm.device_memory(bytes + 1);
      token_ = comm.register_memory(registered_.get(), bytes + 1);
      EXPECT_NE(token_, nullptr);
    } else {
      device_ = std::make_unique<DeviceArray>(comm.rank(), bytes + 1);
    }
  }
  char* get() {
    if (registered_) return static_cast<char*>(registered_.get());
    return device_ ? device_->as<char>() : host_.data();
  }
  void fill(Random& random, DType dtype) {
    for (std::int64_t i = 0; i < bytes_; ++i) get()[i] = static_cast<char>(random());
    if (dtype == DType::kInt64) return;
    // No infinity, no NaN: their payload is nobody's contract.
    const std::int64_t element = size_of(dtype);
    for (std::int64_t i = element - 1; i < bytes_; i += element) {
      get()[i] = static_cast<char>(get()[i] & (dtype == DType::kFloat16 ? 0xbb : 0xbe));
    }
  }
  bool operator==(Bytes& other) {
    return std::memcmp(get(), other.get(), static_cast<std::size_t>(bytes_)) == 0;
  }

 private:
  std::int64_t bytes_;
  std::vector<char> host_;
  std::unique_ptr<DeviceArray> device_;
  std::shared_ptr<void> registered_;
  std::shared_ptr<void> token_;  // goes first
};

/// One call on one communicator, with its buffers.
class Run {
 public:
  Run(const Call& call, Collective& comm, bool on_host)
      : call_(call),
        in_(on_host, call.in_registered, comm, bytes_of_in(comm.size())),
        out_(on_host, call.out_registered, comm, bytes_of_out(comm.size())),
        squares_(static_cast<std::size_t>((call.count + kNormBlock - 1) / kNormBlock) + 1) {
    Random random(call.seed + static_cast<std::uint64_t>(comm.rank()));
    in_.fill(random, call.dtype);
    out_.fill(random, is_reduction() ? DType::kFloat32 : call.dtype);
    work_ = issue(comm);
  }

  void wait() { work_->wait(); }
  bool operator==(Run& other) {
    return in_ == other.in_ && out_ == other.out_ && squares_ == other.squares_ &&
           shown_ == other.shown_;
  }

 private:
  bool is_reduction() const { return call_.operation == Operation::kReduceScatter; }
  std::int64_t bytes_of_in(int size) const {
    return call_.count * size_of(call_.dtype) * (is_reduction() ? size : 1);
  }
  std::int64_t bytes_of_out(int size) const {
    if (is_reduction()) return call_.count * 4;
    return call_.operation == Operation::kAllGather ? call_.count * size_of(call_.dtype) * size : 0;
  }

  WorkPtr issue(Collective& comm) {
    const std::int64_t all = call_.count * comm.size();
    switch (call_.operation) {
      case Operation::kReduceScatter: {
        ReduceScatterOptions options{call_.accumulate, nullptr, "sum",
                                     call_.squares ? squares_.data() : nullptr};
        if (call_.epilogue) {
          options.epilogue = [this](std::int64_t, std::int64_t count) { shown_ += count; };
        }
        return comm.reduce_scatter({in_.get(), all, call_.dtype},
                                   {out_.get(), call_.count, DType::kFloat32}, options);
      }
      case Operation::kAllGather: {
        char* const own = out_.get() + comm.rank() * call_.count * size_of(call_.dtype);
        return comm.all_gather({call_.in_place ? own : in_.get(), call_.count, call_.dtype},
                               {out_.get(), all, call_.dtype}, "gather");
      }
      case Operation::kAllReduce:
        return comm.all_reduce({in_.get(), call_.count, call_.dtype}, call_.op, "reduce");
      case Operation::kBroadcast:
        return comm.broadcast({in_.get(), call_.count, call_.dtype}, call_.root, "copy");
      default:
        return comm.barrier("meet");
    }
  }

  const Call call_;
  Bytes in_, out_;
  std::vector<double> squares_;
  std::int64_t shown_ = 0;
  WorkPtr work_;
};

/// A few calls, none waited for before all are made; then in some order.
void run_schedule(std::uint64_t seed, Collective& nccl, Collective& threads) {
  Random random(seed);
  std::vector<std::unique_ptr<Run>> ours, theirs;
  const std::int64_t calls = 1 + below(random, 5);
  for (std::int64_t i = 0; i < calls; ++i) {
    const Call call = random_call(random, nccl.size());
    ours.push_back(std::make_unique<Run>(call, nccl, call.on_host));
    theirs.push_back(std::make_unique<Run>(call, threads, true));
  }
  if (below(random, 2) == 0) {
    for (auto run = ours.rbegin(); run != ours.rend(); ++run) (*run)->wait();
  }
  for (auto& run : ours) run->wait();
  for (auto& run : theirs) run->wait();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(*ours[i] == *theirs[i])
        << "seed " << seed << ", call " << i << ", rank " << nccl.rank();
  }
}

class NcclSimulation : public ::testing::TestWithParam<int> {};

std::int64_t schedules_of_a_test() {
  const char* const text = std::getenv("ZERO_NCCL_SCHEDULES");
  return text == nullptr ? 400 : std::atoll(text);
}

TEST_P(NcclSimulation, RandomSchedulesGiveTheBitsOfThreads) {
  const int size = GetParam();
  Weather::now().reset(false);
  Weather::now().delay(static_cast<std::uint64_t>(size), std::chrono::microseconds(30));
  constexpr std::int64_t kOfAWorld = 50;
  const std::int64_t most = schedules_of_a_test();
  for (std::int64_t done = 0; done < most && !HasFailure(); done += kOfAWorld) {
    auto ranks = make_light_world(size, fault_test::kPatience);
    auto references = make_threads(size, fault_test::kPatience);
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      threads.emplace_back([&, r] {
        for (std::int64_t s = 0; s < kOfAWorld; ++s) {
          run_schedule(static_cast<std::uint64_t>((done + s) * 64 + size), *ranks[r],
                       *references[r]);
        }
        ranks[r]->shutdown();
        references[r]->shutdown();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(, NcclSimulation, ::testing::Values(2, 4, 8), [](const auto& instance) {
  return "World" + std::to_string(instance.param);
});

}  // namespace
}  // namespace zero::nccl_test
