// The optimizer over NCCL in its steady state: the host is ahead of the GPUs, and somebody watches
// over what they are still at work on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/optim/checkpoint_state.h"
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
using ::testing::HasSubstr;
using Comm = std::shared_ptr<Collective>;

constexpr int kWorld = 2;
constexpr std::chrono::seconds kFarTooLong(20);
constexpr milliseconds kPatience(3000);  // of ranks where one hangs
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

using Body = std::function<void(Optimizer&, const Toy&, const Comm&)>;

/// What each rank threw, with an optimizer of its own.
std::vector<std::exception_ptr> run_optimizers(milliseconds timeout, const Options& options,
                                               const Body& body) {
  return testing::run_ranks(nccl_test::make_light_world(kWorld, timeout), [&](const Comm& comm) {
    const Toy toy(torch::kBFloat16, device(comm->rank()));
    Optimizer optimizer(toy.parameters(), toy.buffers(), kAdamW, options, comm);
    body(optimizer, toy, comm);
  });
}

void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (const auto& error : errors) EXPECT_EQ(testing::message_of(error), "");
}

TEST(OverNccl, TheGpuHasTheNextReductionsBeforeOneHasEnded) {
  Traffic traffic;
  std::barrier all(kWorld);
  expect_no_errors(run_optimizers(
      kFarTooLong, options_of(2), [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
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
  expect_no_errors(run_optimizers(
      kFarTooLong, options_of(2), [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
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

struct NextCall {
  std::string name;
  Body make;

  friend void PrintTo(const NextCall& call, std::ostream* out) { *out << call.name; }
};
class AGatherThatHangsAfterItsStep : public ::testing::TestWithParam<NextCall> {};

TEST_P(AGatherThatHangsAfterItsStep, EndsAndIsNamedOnEveryRankByTheNextCall) {
  Traffic traffic;
  std::barrier all(kWorld);
  const auto start = std::chrono::steady_clock::now();
  const auto errors = run_optimizers(
      kPatience, options_of(2), [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
        backward(optimizer, toy, comm);
        optimizer.gather("gain", StateKind::kGradient);
        all.arrive_and_wait();
        traffic.hang(1);
        EXPECT_TRUE(optimizer.step().applied);
        toy.gain.to(torch::kCPU);  // nobody but the optimizer's own thread can end this
        GetParam().make(optimizer, toy, comm);
      });
  for (const auto& error : errors) {
    EXPECT_THAT(testing::message_of(error),
                AllOf(HasSubstr("parameters may stand at two different steps"),
                      HasSubstr("parameters, bucket "), HasSubstr("fell silent")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kFarTooLong);
}

INSTANTIATE_TEST_SUITE_P(
    , AGatherThatHangsAfterItsStep,
    ::testing::Values(
        NextCall{"Backward",
                 [](Optimizer& o, const Toy& toy, const Comm& comm) {
                   backward(o, toy, comm);
                   o.step();
                 }},
        NextCall{"Step", [](Optimizer& o, const Toy&, const Comm&) { o.step(); }},
        NextCall{"ZeroGrad",
                 [](Optimizer& o, const Toy&, const Comm&) {
                   EXPECT_THROW(o.zero_grad(), CommError);
                   o.step();  // says it again
                 }},
        NextCall{"ForEachShard",
                 [](Optimizer& o, const Toy&, const Comm&) {
                   o.for_each_shard(StateKind::kMaster, [](const ShardView&) {});
                 }},
        NextCall{"CommunicatorOfCheckpoints",
                 [](Optimizer& o, const Toy&, const Comm&) { CheckpointAccess(o).comm(); }},
        NextCall{"State",
                 [](Optimizer& o, const Toy&, const Comm&) { CheckpointAccess(o).state({}); }},
        NextCall{"Rebuild", [](Optimizer& o, const Toy& toy,
                               const Comm&) { o.rebuild(toy.parameters(), toy.buffers()); }},
        NextCall{"Shutdown", [](Optimizer& o, const Toy&, const Comm&) { o.shutdown(); }}),
    [](const auto& instance) { return instance.param.name; });

TEST(OverNccl, AbortAndShutdownEndBesideAGatherThatHangs) {
  Traffic traffic;
  std::barrier all(kWorld);
  const auto start = std::chrono::steady_clock::now();
  run_optimizers(kPatience, options_of(2),
                 [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
                   backward(optimizer, toy, comm);
                   optimizer.gather("gain", StateKind::kGradient);
                   all.arrive_and_wait();
                   traffic.hang(1);
                   EXPECT_TRUE(optimizer.step().applied);
                   optimizer.abort("enough");
                   optimizer.shutdown();
                 });
  EXPECT_LT(std::chrono::steady_clock::now() - start, kFarTooLong);
}

TEST(OverNccl, AnAverageWhoseGatherHangsLeavesTheWeightsAndSaysSo) {
  Traffic traffic;
  std::barrier all(kWorld);
  const auto errors = run_optimizers(
      kPatience, options_of(2).ema(0.5),
      [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
        backward(optimizer, toy, comm);
        optimizer.step();
        optimizer.gather("gain", StateKind::kMaster);  // the step's gathers have ended
        std::vector<torch::Tensor> weights;
        for (const NamedTensor& item : toy.parameters())
          weights.push_back(item.tensor.detach().to(torch::kCPU).clone());
        all.arrive_and_wait();
        traffic.hang(1);
        const std::string error = testing::message_of([&]() -> std::exception_ptr {
          try {
            const EmaScope scope = optimizer.ema_scope();
          } catch (const std::exception&) {
            return std::current_exception();
          }
          return nullptr;
        }());
        EXPECT_THAT(error, AllOf(HasSubstr("parameters, bucket "),
                                 HasSubstr("no parameter was changed since the last step")));
        for (std::size_t i = 0; i < weights.size(); ++i)
          EXPECT_TRUE(torch::equal(toy.parameters()[i].tensor.to(torch::kCPU), weights[i]))
              << "tensor " << i;
      });
  expect_no_errors(errors);
}

/// The stream behind a gather that hangs is never filled: who blocks there can end nothing.
TEST(OverNccl, SomeHundredLaunchesAtMostStandBehindAGather) {
  Traffic traffic;
  std::barrier all(kWorld);
  std::array<int, 2> launches{};
  expect_no_errors(
      testing::run_ranks(nccl_test::make_light_world(kWorld, kFarTooLong), [&](const Comm& comm) {
        std::vector<NamedTensor> parameters;
        for (int i = 0; i < 700; ++i)
          parameters.push_back({"p" + std::to_string(i),
                                torch::full({70}, 0.5f).to(device(comm->rank())).requires_grad_()});
        Optimizer optimizer(parameters, {}, kAdamW, options_of(2).bucket_bytes(1 << 20), comm);
        torch::Tensor loss = torch::zeros({}, torch::device(device(comm->rank())));
        for (const NamedTensor& item : parameters) loss = loss + item.tensor.sum();
        optimizer.backward(loss);
        optimizer.gather("p0", StateKind::kGradient);
        all.arrive_and_wait();
        if (comm->rank() == 0) launches[0] = traffic.calls("cast");
        all.arrive_and_wait();
        traffic.stop();
        std::jthread opener([&] {
          EXPECT_TRUE(traffic.await_calls("ncclAllGather", kWorld));
          std::this_thread::sleep_for(milliseconds(300));  // right code waits however long
          if (comm->rank() == 0) launches[1] = traffic.calls("cast");
          all.arrive_and_wait();
          traffic.open();
        });
        EXPECT_TRUE(optimizer.step().applied);
        opener.join();
        optimizer.shutdown();
      }));
  EXPECT_LE(launches[1] - launches[0], kWorld * (2 * 300));
}

TEST(OverNccl, OnlyAnOptimizerThatIsNotDeterministicAsksForNcclsOwnSumsAndSaysSo) {
  for (const bool deterministic : {true, false}) {
    Traffic traffic;
    std::size_t buckets = 0;
    expect_no_errors(run_optimizers(kFarTooLong, options_of(2).deterministic(deterministic),
                                    [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
                                      backward(optimizer, toy, comm);
                                      const StepResult result = optimizer.step();
                                      EXPECT_TRUE(result.applied);
                                      EXPECT_EQ(result.deterministic, deterministic);
                                      if (comm->rank() == 0)
                                        buckets = optimizer.layout().buckets().size();
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
  expect_no_errors(run_optimizers(
      kFarTooLong, options_of(2), [&](Optimizer& optimizer, const Toy& toy, const Comm& comm) {
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
