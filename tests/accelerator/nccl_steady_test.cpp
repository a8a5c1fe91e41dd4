// The optimizer over NCCL in its steady state: the host is ahead of the GPUs, and somebody watches
// over what they are still at work on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/nccl/fake/weather.h"
#include "tests/nccl/world.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using nccl_test::Weather;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Comm = std::shared_ptr<Collective>;

constexpr int kWorld = 2;
constexpr std::chrono::seconds kFarTooLong(20);
const AdamWOptions kAdamW(1e-2);

/// Counts what was given to the GPUs of all ranks, and can stop their work.
class Traffic {
 public:
  Traffic() {
    Weather::now().reset(/*all_is_device_memory=*/false);
    Weather::now().on_call([this](const std::string& function, int) {
      const std::lock_guard lock(mutex_);
      ++calls_[function];
      changed_.notify_all();
      return 0;
    });
    Weather::now().on_kernel([this](int rank, std::int64_t) {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, kFarTooLong, [&] { return open_; })) << "is not ahead";
      return rank == hanging_rank_ ? -1 : 0;
    });
  }
  ~Traffic() {
    open();
    Weather::now().on_call(nullptr);
    Weather::now().on_kernel(nullptr);
    for (const std::string& rule : Weather::now().broken_rules()) ADD_FAILURE() << rule;
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void stop() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void hang(int rank) {
    const std::lock_guard lock(mutex_);
    hanging_rank_ = rank;
  }
  int calls(const std::string& function) {
    const std::lock_guard lock(mutex_);
    return calls_[function];
  }
  /// False: it has not come to that.
  bool await_calls(const std::string& function, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kFarTooLong, [&] { return calls_[function] >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> calls_;
  bool open_ = true;
  int hanging_rank_ = -1;
};

Options options_of(int stage) {
  return in_place(testing::toy_options(stage), Place::kDevice);
}

void backward(Optimizer& optimizer, const Toy& toy, const Comm& comm) {
  optimizer.backward(toy.loss(testing::toy_batch(0, comm->rank())));
}

std::vector<torch::Tensor> parameters_of_cpu() {
  std::vector<torch::Tensor> values;
  testing::run_ranks(make_threads(kWorld, kFarTooLong), [&](const Comm& comm) {
    const Toy toy(torch::kBFloat16, torch::kCPU);
    Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, testing::toy_options(2), comm);
    backward(optimizer, toy, comm);
    optimizer.step();
    if (comm->rank() == 0) {
      for (const NamedTensor& item : toy.parameters())
        values.push_back(item.tensor.detach().clone());
    }
    optimizer.shutdown();
  });
  return values;
}

void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (const auto& error : errors) EXPECT_EQ(testing::message_of(error), "");
}

TEST(OverNccl, TheGpuHasTheNextReductionsBeforeOneHasEnded) {
  Traffic traffic;
  std::barrier all(kWorld);
  expect_no_errors(
      testing::run_ranks(nccl_test::make_light_world(kWorld, kFarTooLong), [&](const Comm& comm) {
        const Toy toy(torch::kBFloat16, device(comm->rank()));
        Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, options_of(2), comm);
        ASSERT_GE(optimizer.layout().buckets().size(), 3u);
        all.arrive_and_wait();
        const int before = traffic.calls("ncclSend");
        all.arrive_and_wait();
        traffic.stop();
        backward(optimizer, toy, comm);
        EXPECT_TRUE(traffic.await_calls("ncclSend", before + 3 * kWorld));
        all.arrive_and_wait();
        traffic.open();
        EXPECT_TRUE(optimizer.step().applied);
        optimizer.shutdown();
      }));
}

TEST(OverNccl, AStepReturnsWhileParametersAreOnTheirWayAndLaterWorkSeesTheNewOnes) {
  Traffic traffic;
  std::barrier all(kWorld);
  const std::vector<torch::Tensor> expected = parameters_of_cpu();
  expect_no_errors(
      testing::run_ranks(nccl_test::make_light_world(kWorld, kFarTooLong), [&](const Comm& comm) {
        const Toy toy(torch::kBFloat16, device(comm->rank()));
        Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, options_of(2), comm);
        backward(optimizer, toy, comm);
        EXPECT_TRUE(optimizer.gather("gain", StateKind::kGradient).defined());  // all are reduced
        std::vector<torch::Tensor> seen;
        for (const NamedTensor& item : toy.parameters())
          seen.push_back(torch::zeros_like(item.tensor.detach()));
        all.arrive_and_wait();
        traffic.stop();
        EXPECT_TRUE(optimizer.step().applied);
        for (std::size_t i = 0; i < seen.size(); ++i)
          seen[i].copy_(toy.parameters()[i].tensor.detach());
        all.arrive_and_wait();
        traffic.open();
        for (std::size_t i = 0; i < seen.size(); ++i)
          EXPECT_TRUE(torch::equal(seen[i].to(torch::kCPU), expected[i])) << "tensor " << i;
        optimizer.shutdown();
      }));
}

TEST(OverNccl, AGatherThatHangsAfterItsStepEndsAndIsNamedOnEveryRank) {
  Traffic traffic;
  std::barrier all(kWorld);
  const auto start = std::chrono::steady_clock::now();
  const auto errors = testing::run_ranks(
      nccl_test::make_light_world(kWorld, milliseconds(3000)), [&](const Comm& comm) {
        const Toy toy(torch::kBFloat16, device(comm->rank()));
        Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, options_of(2), comm);
        backward(optimizer, toy, comm);
        optimizer.gather("gain", StateKind::kGradient);
        all.arrive_and_wait();
        traffic.hang(1);
        EXPECT_TRUE(optimizer.step().applied);
        toy.gain.to(torch::kCPU);  // nobody but the optimizer's own thread can end this
        EXPECT_THROW(optimizer.zero_grad(), CommError);
        optimizer.step();
      });
  for (const auto& error : errors) {
    EXPECT_THAT(testing::message_of(error),
                AllOf(HasSubstr("refuses to go on"),
                      HasSubstr("parameters may stand at two different steps"),
                      HasSubstr("parameters, bucket "), HasSubstr("fell silent")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kFarTooLong);
}

TEST(OverNccl, OnlyAnOptimizerThatIsNotDeterministicAsksForNcclsOwnSumsAndSaysSo) {
  for (const bool deterministic : {true, false}) {
    Traffic traffic;
    std::size_t buckets = 0;
    expect_no_errors(
        testing::run_ranks(nccl_test::make_light_world(kWorld, kFarTooLong), [&](const Comm& comm) {
          const Toy toy(torch::kBFloat16, device(comm->rank()));
          Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW,
                              options_of(2).deterministic(deterministic), comm);
          backward(optimizer, toy, comm);
          const StepResult result = optimizer.step();
          EXPECT_TRUE(result.applied);
          EXPECT_EQ(result.deterministic, deterministic);
          if (comm->rank() == 0) buckets = optimizer.layout().buckets().size();
          optimizer.shutdown();
        }));
    EXPECT_EQ(traffic.calls("ncclReduceScatter"),
              deterministic ? 0 : kWorld * static_cast<int>(buckets));
  }
}

/// Whatever is on its way: the ranks come together again.
TEST(OverNccl, ACallThatDoesNotMatchIsRefusedAtOnceAndTheNextWindowIsRight) {
  Traffic traffic;
  const std::vector<torch::Tensor> expected = parameters_of_cpu();
  expect_no_errors(
      testing::run_ranks(nccl_test::make_light_world(kWorld, kFarTooLong), [&](const Comm& comm) {
        const Toy toy(torch::kBFloat16, device(comm->rank()));
        Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, options_of(2), comm);
        backward(optimizer, toy, comm);
        EXPECT_THROW(
            {
              if (comm->rank() == 0) backward(optimizer, toy, comm);
              optimizer.step();
            },
            ContractError);
        backward(optimizer, toy, comm);
        EXPECT_TRUE(optimizer.step().applied);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(torch::equal(toy.parameters()[i].tensor.to(torch::kCPU), expected[i]))
              << "tensor " << i;
        optimizer.shutdown();
      }));
}

}  // namespace
}  // namespace zero::accelerator_test
