// What else an optimizer promises, where the model lies on a device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "libzero/base/error.h"
#include "libzero/estimate/memory_estimate.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/memory.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"
#include "tests/temporary_folder.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Comm = std::shared_ptr<Collective>;

const AdamWOptions kAdamW = AdamWOptions(1e-2).weight_decay(0.1);

class Promises : public ::testing::TestWithParam<Place> {
 protected:
  static Options options_of(int stage) { return in_place(testing::toy_options(stage), GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, Promises, kPlaces, name_of);

std::unique_ptr<Optimizer> optimizer_of(const Toy& toy, const Options& options, const Comm& comm) {
  return std::make_unique<Optimizer>(toy.parameters(), toy.buffers(), kAdamW, options, comm);
}

/// One micro-batch a rank.
StepResult train(Optimizer& optimizer, const Toy& toy, std::int64_t step, const Comm& comm) {
  optimizer.backward(toy.loss(testing::toy_batch(step, comm->rank())));
  return optimizer.step();
}

/// The same run on the CPU and on devices of `world_size` ranks, with rank 0's parameters equal.
/// `any_order`: only nearly so where the backend has an order of its own.
using Body = std::function<void(const Toy&, const Comm&)>;
void expect_same_on_both(int world_size, torch::Dtype dtype, const Body& body,
                         bool any_order = false) {
  std::vector<std::vector<torch::Tensor>> results;
  bool is_exact = true;
  for (const bool on_device : {false, true}) {
    testing::on_ranks(world_size, [&](const Comm& comm) {
      const Toy toy(dtype, on_device ? device(comm->rank()) : torch::kCPU);
      body(toy, comm);
      if (comm->rank() != 0) return;
      is_exact = !any_order || comm->backend() != "nccl";
      results.emplace_back();
      for (const NamedTensor& item : toy.parameters())
        results.back().push_back(item.tensor.detach().to(torch::kCPU).clone());
      results.back().push_back(toy.scale.to(torch::kCPU).clone());
    });
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(is_exact ? torch::equal(results[0][i], results[1][i])
                         : torch::allclose(results[0][i], results[1][i], 1e-2, 1e-3))
        << "tensor " << i;
  }
}

std::string refusal_of(const std::vector<NamedTensor>& parameters, const Options& options) {
  return testing::errors_on_ranks(
      1, [&](const Comm& comm) { Optimizer optimizer(parameters, {}, kAdamW, options, comm); })[0];
}

TEST(PromisesOfKernels, ADeviceWithoutKernelsIsRefusedNamingWhatToDo) {
  const Toy toy(torch::kFloat, device(0));
  EXPECT_THAT(refusal_of(toy.parameters(), testing::toy_options(2)),
              AllOf(HasSubstr("offload(Offload::kHost)"), HasSubstr("no kernels for fake:0")));
}

TEST_P(Promises, AModelOnTwoDevicesIsRefusedNamingBoth) {
  auto parameters = Toy(torch::kFloat, device(0)).parameters();
  parameters[2].tensor = torch::zeros({3}, device(1)).requires_grad_();
  EXPECT_THAT(refusal_of(parameters, options_of(2)),
              AllOf(HasSubstr("embedding is on fake:0"), HasSubstr("first_bias on fake:1")));
  parameters[2].tensor = torch::zeros({3}).requires_grad_();
  EXPECT_THAT(refusal_of(parameters, options_of(2)), HasSubstr("first_bias on cpu"));
}

/// A door on a stream: what was put there later waits until it is opened.
class Door {
 public:
  void stand_on_present_stream(c10::Device device) {
    on_present_stream(device, [this] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return open_; });
    });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST_P(Promises, WorkGivenToTheStreamBeforeAStepSeesTheOldParametersAndLaterWorkTheNewOnes) {
  for (const int stage : {0, 2}) {
    testing::on_ranks(1, [&](const Comm& comm) {
      const Toy toy(torch::kFloat, device(0));
      const auto optimizer = optimizer_of(toy, options_of(stage), comm);
      optimizer->backward(toy.loss(testing::toy_batch(0, 0)));
      const torch::Tensor old = toy.first.detach().to(torch::kCPU).clone();
      Door door;
      door.stand_on_present_stream(device(0));
      const torch::Tensor before = toy.first.detach().clone();
      optimizer->step();  // and the host does not wait for the device
      const torch::Tensor after = toy.first.detach().clone();
      door.open();
      EXPECT_TRUE(torch::equal(before.to(torch::kCPU), old));
      EXPECT_FALSE(torch::equal(after.to(torch::kCPU), old));
      EXPECT_TRUE(
          torch::equal(after.to(torch::kCPU), optimizer->gather("first", StateKind::kMaster)));
      optimizer->shutdown();
    });
  }
}

TEST_P(Promises, TheAverageWaitsForWhatIsStillOnItsWayUp) {
  for (const int stage : {0, 2}) {
    testing::on_ranks(1, [&](const Comm& comm) {
      const Toy toy(torch::kFloat, device(0));
      const auto optimizer = optimizer_of(toy, options_of(stage).ema(0.5), comm);
      optimizer->backward(toy.loss(testing::toy_batch(0, 0)));
      Door door;
      door.stand_on_present_stream(device(0));  // nothing goes up before it is opened
      optimizer->step();
      // Right code waits for the door however long that takes; wrong code has written by then.
      std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        door.open();
      });
      const torch::Tensor weights = optimizer->gather("first", StateKind::kMaster);
      torch::Tensor shown;
      {
        const auto scope = optimizer->ema_scope();
        shown = toy.first.detach().to(torch::kCPU);
      }
      opener.join();
      EXPECT_TRUE(torch::equal(shown, optimizer->gather("first", StateKind::kEma)));
      EXPECT_TRUE(torch::equal(toy.first.detach().to(torch::kCPU), weights));
      optimizer->shutdown();
    });
  }
}

TEST_P(Promises, AParameterThatSomebodyWritesCountsAsOnTheCpu) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    expect_same_on_both(1, dtype, [](const Toy& toy, const Comm& comm) {
      const auto optimizer = optimizer_of(toy, options_of(1), comm);
      train(*optimizer, toy, 0, comm);
      {
        const torch::NoGradGuard no_grad;
        toy.second.mul_(0.5);
      }
      train(*optimizer, toy, 1, comm);
      {
        const torch::NoGradGuard no_grad;
        toy.first.add_(0.25);
      }
      optimizer->refresh_masters();
      train(*optimizer, toy, 2, comm);
      optimizer->shutdown();
    });
  }
}

TEST_P(Promises, SumsInsideNoSyncHaveTheBitsOfTheCpu) {
  const Body body = [](const Toy& toy, const Comm& comm) {
    const auto optimizer = optimizer_of(toy, options_of(1).deterministic(false), comm);
    for (std::int64_t step = 0; step < 2; ++step) {
      {
        const auto hold = optimizer->no_sync();
        optimizer->backward(toy.loss(testing::toy_batch(step, 4 + comm->rank())));
      }
      train(*optimizer, toy, step, comm);
    }
    optimizer->shutdown();
  };
  for (const auto dtype : {torch::kFloat, torch::kBFloat16})
    expect_same_on_both(2, dtype, body, /*any_order=*/true);
}

TEST_P(Promises, DeferredReductionAndStateOnADiskHaveTheBitsOfTheCpu) {
  const testing::TemporaryFolder folder;
  for (const int stage : {0, 2}) {
    expect_same_on_both(2, torch::kBFloat16, [&](const Toy& toy, const Comm& comm) {
      auto options = options_of(stage).defer_reduction(true);
      options.offload(Offload::kDisk(folder.path()));
      const auto optimizer = optimizer_of(toy, options, comm);
      for (std::int64_t step = 0; step < 3; ++step) train(*optimizer, toy, step, comm);
      optimizer->shutdown();
    });
  }
}

TEST_P(Promises, GatherAndShardsShowTheStateOfTheCpu) {
  std::vector<torch::Tensor> shown;
  for (const bool on_device : {false, true}) {
    testing::on_ranks(2, [&](const Comm& comm) {
      const Toy toy(torch::kBFloat16, on_device ? device(comm->rank()) : torch::kCPU);
      const auto optimizer = optimizer_of(toy, options_of(2), comm);
      train(*optimizer, toy, 0, comm);
      std::vector<torch::Tensor> mine;
      for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kGradient})
        mine.push_back(optimizer->gather("mixed", kind));
      std::int64_t elements = 0;
      optimizer->for_each_shard(StateKind::kExpAvgSq, [&](const ShardView& view) {
        elements += static_cast<std::int64_t>(view.values.size());
      });
      mine.push_back(torch::tensor(elements));
      optimizer->shutdown();
      if (comm->rank() == 0) shown.insert(shown.end(), mine.begin(), mine.end());
    });
  }
  ASSERT_EQ(shown.size(), 8u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(shown[i], shown[i + 4])) << i;
}

TEST_P(Promises, AWrittenMasterReachesTheDevice) {
  testing::on_ranks(1, [&](const Comm& comm) {
    const Toy toy(torch::kFloat, device(0));
    const auto optimizer = optimizer_of(toy, options_of(1), comm);
    optimizer->for_each_shard(StateKind::kMaster, [](const ShardView& view) {
      if (view.name == "gain") view.values[0] = 3.0f;
    });
    EXPECT_EQ(toy.gain.item<float>(), 3.0f);
    optimizer->shutdown();
  });
}

TEST_P(Promises, DamageInTheMemoryOfOneDeviceIsFoundBeforeTheUpdate) {
  const auto errors = testing::errors_on_ranks(2, [](const Comm& comm) {
    const Toy toy(torch::kFloat, device(comm->rank()));
    const auto optimizer = optimizer_of(toy, options_of(2).checksum_every(1), comm);
    train(*optimizer, toy, 0, comm);
    wait_for_present_stream(device(comm->rank()));
    if (comm->rank() == 1) static_cast<float*>(behind(toy.first.data_ptr()))[5] += 1.0f;
    train(*optimizer, toy, 1, comm);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("before the update of step 2"), HasSubstr("first")));
}

TEST(PromisesOfMemory, StateOnTheHostTellsTheDevicesFromTheHosts) {
  testing::on_ranks(1, [](const Comm& comm) {
    const Toy toy(torch::kBFloat16, device(0));
    const auto optimizer = optimizer_of(toy, in_place(testing::toy_options(1), Place::kHost), comm);
    const MemoryReport report = optimizer->memory();
    EXPECT_EQ(report.host_image, report.parameters);
    EXPECT_GT(report.landing, 0);
    EXPECT_EQ(report.on_device,
              report.parameters + report.gradients + report.frozen + report.buffers);
    EXPECT_EQ(report.total() - report.on_device,
              report.accumulator + report.master + report.exp_avg + report.exp_avg_sq +
                  report.alignment + report.block_sums + report.staging + report.host_image +
                  report.landing);
    std::vector<ParameterSpec> rows(optimizer->layout().parameters().begin(),
                                    optimizer->layout().parameters().end());
    rows.push_back({.name = "scale",
                    .shape = {1},
                    .dtype = DType::kBFloat16,
                    .group = -1,
                    .trainable = false});
    const StepResult step = train(*optimizer, toy, 0, comm);
    EXPECT_EQ(step.device_bytes, report.on_device);
    EXPECT_EQ(step.host_bytes, report.total() - report.on_device);
    const MemoryReport estimate = estimate_memory(Layout(rows, optimizer->layout().options()),
                                                  {.stage = 1, .state = StatePlace::kHost})
                                      .report;
    EXPECT_EQ(estimate.total(), report.on_device);
    EXPECT_EQ(estimate.offloaded, report.total() - report.on_device);
    optimizer->shutdown();
  });
  testing::on_ranks(1, [](const Comm& comm) {
    const Toy toy(torch::kBFloat16, torch::kCPU);
    const auto optimizer = optimizer_of(toy, in_place(testing::toy_options(1), Place::kHost), comm);
    EXPECT_EQ(optimizer->memory().on_device + optimizer->memory().host_image, 0);
    const StepResult step = train(*optimizer, toy, 0, comm);
    EXPECT_EQ(step.device_bytes, 0);
    EXPECT_EQ(step.host_bytes, optimizer->memory().total());
    optimizer->shutdown();
  });
}

TEST(PromisesOfMemory, StateOnTheDeviceLiesThereWhole) {
  for (const int world_size : {1, 2}) {
    testing::on_ranks(world_size, [&](const Comm& comm) {
      const Toy toy(torch::kBFloat16, device(comm->rank()));
      const auto optimizer =
          optimizer_of(toy, in_place(testing::toy_options(1), Place::kDevice), comm);
      const MemoryReport report = optimizer->memory();
      EXPECT_EQ(report.on_device, report.total() - report.landing);
      EXPECT_EQ(report.landing > 0, world_size > 1 && !comm->takes_device_memory());
      EXPECT_EQ(report.host_image, 0);
      if (comm->rank() == 0) {  // the others may have no slice
        EXPECT_GT(report.master, 0);
      }
      EXPECT_GT(report.staging, 0);
      EXPECT_EQ(report.master, report.exp_avg);
      optimizer->shutdown();
    });
  }
}

}  // namespace
}  // namespace zero::accelerator_test
