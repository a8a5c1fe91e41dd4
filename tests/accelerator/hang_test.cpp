// A device that never goes on: an error in time, on every rank, and nothing that waits for ever.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/loss_box.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/memory.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLimit(150);
// Of a test: no limit was kept if it takes as long.
constexpr std::chrono::seconds kFarTooLong(20);

/// Something on a stream that does not end before open().
class Obstacle {
 public:
  void put_on_present_stream(c10::Device device) {
    on_present_stream(device, [state = state_] {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->open; });
    });
  }
  /// On those that a component of the optimizer may have as its own.
  void put_on_other_streams(c10::Device device) {
    for (int i = 0; i < kPooledStreams; ++i) {
      const c10::StreamGuard other(
          c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
      put_on_present_stream(device);
    }
  }
  void open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  ~Obstacle() { open(); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

TEST(WaitingForADevice, EndsWithWhatWasToBeDone) {
  const at::Tensor tensor = torch::ones({1000}, torch::device(device(0)));
  c10::Event event(device(0).type());
  wait_for(event, milliseconds(0), "an event that was never recorded");
  event.record(c10::impl::VirtualGuardImpl(device(0).type()).getStream(device(0)));
  wait_for(event, kFarTooLong, "an event");
  wait_for(device(0), kFarTooLong, "a stream");
  wait_for(c10::Device(torch::kCPU), milliseconds(0), "a CPU");
  EXPECT_TRUE(torch::equal(tensor.to(torch::kCPU), torch::ones({1000})));
}

TEST(WaitingForADevice, EndsInTimeWithAnErrorThatNamesDeviceTimeAndWhatWasWaitedFor) {
  Obstacle obstacle;
  obstacle.put_on_present_stream(device(3));
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device(3).type()).getStream(device(3));
  c10::Event event(device(3).type());
  event.record(stream);
  const auto start = Clock::now();
  for (const auto& wait : std::vector<std::function<void()>>{
           [&] { wait_for(event, kLimit, "the gradients of bucket 7"); },
           [&] { wait_for(device(3), kLimit, "the gradients of bucket 7"); }}) {
    EXPECT_THAT(error_of(wait), AllOf(HasSubstr("waited 150 ms on fake:3 for the gradients of "
                                                "bucket 7"),
                                      HasSubstr("Options().device_timeout()")));
  }
  EXPECT_FALSE(comes_to_rest(stream, kLimit));
  EXPECT_GE(Clock::now() - start, 3 * kLimit);
  EXPECT_LT(Clock::now() - start, kFarTooLong);
  obstacle.open();
  EXPECT_TRUE(comes_to_rest(stream, kFarTooLong));
}

TEST(ALossOnADevice, IsWaitedForWhenItIsTakenAndNotBefore) {
  Obstacle obstacle;
  const c10::DeviceGuard here(device(2));
  const torch::Tensor loss = torch::full({}, 1.5f).to(device(2));
  LossBox box(kLimit);
  std::vector<BackwardCall> calls(2);
  box.put(1, loss);
  obstacle.put_on_present_stream(device(2));
  box.take(calls);  // the obstacle stands behind it
  EXPECT_EQ(calls[1].loss, 1.5);
  EXPECT_EQ(calls[0].loss, 0.0);
  box.put(0, loss);
  EXPECT_THAT(error_of([&] { box.take(calls); }),
              HasSubstr("waited 150 ms on fake:2 for a loss to be known"));
  obstacle.open();
}

/// The summed gradient after two calls of backward, whose first one's packing comes late.
torch::Tensor summed_gradient(bool is_late, int stage) {
  torch::Tensor sum;
  testing::on_ranks(1, [&](const std::shared_ptr<Collective>& comm) {
    const Toy toy(torch::kBFloat16, device(0));
    Options options = in_place(testing::toy_options(stage), Place::kDevice);
    options.first_bucket_bytes(1 << 20).bucket_bytes(1 << 20);  // one: nobody waits for a third
    Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2), options, comm);
    Obstacle obstacle;
    if (is_late) obstacle.put_on_other_streams(device(0));
    optimizer.backward(toy.loss(testing::toy_batch(0, 0)));
    // Right code waits however long that takes; wrong code has written by then.
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      obstacle.open();
    });
    optimizer.backward(toy.loss(testing::toy_batch(0, 1)));
    opener.join();
    sum = optimizer.gather("second", StateKind::kGradient);
    optimizer.shutdown();
  });
  return sum;
}

TEST(ALateDevice, KeepsBackwardFromWritingGradientsThatAreNotPackedYet) {
  for (const int stage : {0, 1, 2})
    EXPECT_TRUE(torch::equal(summed_gradient(true, stage), summed_gradient(false, stage)))
        << "stage " << stage;
}

using Steps = std::function<void(Optimizer&, const Toy&, Obstacle&, c10::Device)>;

/// Both ranks run `steps`; rank 1's device hangs. Each rank's error.
std::vector<std::string> errors_where_one_hangs(int stage, const Steps& steps,
                                                Place place = Place::kHost) {
  Obstacle obstacle, no_obstacle;
  no_obstacle.open();
  const auto start = Clock::now();
  const auto errors = testing::errors_on_ranks(
      2,
      [&](const std::shared_ptr<Collective>& comm) {
        const Toy toy(torch::kBFloat16, device(comm->rank()));
        Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                            in_place(testing::toy_options(stage), place).device_timeout(kLimit),
                            comm);
        steps(optimizer, toy, comm->rank() == 1 ? obstacle : no_obstacle, device(comm->rank()));
      },
      2 * kFarTooLong);
  EXPECT_LT(Clock::now() - start, kFarTooLong);
  return errors;
}

void expect_death_of_rank_1(const std::vector<std::string>& errors, const std::string& what) {
  EXPECT_THAT(errors[1], AllOf(HasSubstr("waited 150 ms on fake:1 for " + what)));
  EXPECT_THAT(errors[0], HasSubstr("waited 150 ms on fake:1 for " + what));
}

class AHangingDevice : public ::testing::TestWithParam<int> {};

TEST_P(AHangingDevice, IsAnErrorOnEveryRankWhenGradientsDoNotLand) {
  expect_death_of_rank_1(
      errors_where_one_hangs(
          GetParam(),
          [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
            const auto loss = toy.loss(testing::toy_batch(0, on.index()));
            obstacle.put_on_other_streams(on);
            optimizer.backward(loss);
            optimizer.step();
          }),
      "the gradients of bucket 0 (");
}

TEST_P(AHangingDevice, IsAnErrorOnEveryRankWhenChangedParametersDoNotComeDown) {
  const auto errors = errors_where_one_hangs(
      GetParam(), [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
        optimizer.backward(toy.loss(testing::toy_batch(0, on.index())));
        const torch::NoGradGuard no_grad;
        toy.gain.mul_(0.5);
        obstacle.put_on_present_stream(on);
        optimizer.step();
      });
  expect_death_of_rank_1(errors, "parameters to reach the host");
  EXPECT_THAT(errors[1], HasSubstr("start again from saved weights"));
}

TEST_P(AHangingDevice, IsAnErrorOnEveryRankWhenTheLastUpdateDoesNotArrive) {
  expect_death_of_rank_1(
      errors_where_one_hangs(
          GetParam(),
          [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
            optimizer.backward(toy.loss(testing::toy_batch(0, on.index())));
            obstacle.put_on_present_stream(on);
            optimizer.step();
            optimizer.refresh_masters();
          }),
      "parameters of the last update to reach it");
}

TEST_P(AHangingDevice, IsAnErrorOnEveryRankWhenOneLooksAtItsShards) {
  expect_death_of_rank_1(
      errors_where_one_hangs(
          GetParam(),
          [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
            const torch::NoGradGuard no_grad;
            toy.gain.mul_(0.5);
            obstacle.put_on_present_stream(on);
            optimizer.for_each_shard(StateKind::kMaster, [](const ShardView&) {});
            optimizer.gather("gain", StateKind::kMaster);
          }),
      "parameters to reach the host");
}

TEST_P(AHangingDevice, IsAnErrorOnEveryRankWhenTheOptimizerIsRebuilt) {
  for (const Place place : {Place::kHost, Place::kDevice}) {
    const auto errors = errors_where_one_hangs(
        GetParam(),
        [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
          optimizer.backward(toy.loss(testing::toy_batch(0, on.index())));
          optimizer.step();
          obstacle.put_on_present_stream(on);
          optimizer.rebuild(toy.parameters(), toy.buffers());
        },
        place);
    expect_death_of_rank_1(errors, "what it was given before rebuild()");
    EXPECT_THAT(errors[1], HasSubstr("no parameter was changed since the last step"));
  }
}

/// What goes up still reads images that the optimizer afterwards has for other names.
TEST(ALateDevice, HasTheLastUpdateBeforeTheOptimizerIsRebuilt) {
  testing::on_ranks(1, [](const std::shared_ptr<Collective>& comm) {
    const auto parameter = [](float value) {
      return torch::full({500}, value).to(device(0)).requires_grad_();
    };
    std::vector<NamedTensor> parameters = {{"x", parameter(1)}, {"y", parameter(2)}};
    Optimizer optimizer(parameters, {}, AdamWOptions(1e-2),
                        testing::toy_options(1).offload(Offload::kHost), comm);
    Obstacle obstacle;
    optimizer.backward((parameters[0].tensor * parameters[1].tensor).sum());
    obstacle.put_on_present_stream(device(0));
    optimizer.step();
    const torch::Tensor seen = parameters[0].tensor.detach().clone();
    std::swap(parameters[0].tensor, parameters[1].tensor);
    // Right code waits however long that takes; wrong code has written by then.
    std::jthread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      obstacle.open();
    });
    {
      const c10::StreamGuard other(  // that waits for nothing by itself
          c10::impl::VirtualGuardImpl(device(0).type()).getStreamFromGlobalPool(device(0)));
      optimizer.rebuild(parameters, {});
    }
    opener.join();
    const torch::Tensor x = optimizer.gather("x", StateKind::kMaster);
    EXPECT_TRUE(torch::equal(seen.to(torch::kCPU), x));
    EXPECT_TRUE(torch::equal(parameters[0].tensor.detach().to(torch::kCPU), x));
    EXPECT_GT(parameters[1].tensor.detach().to(torch::kCPU).min().item<float>(), 1.5f);
    optimizer.shutdown();
  });
}

/// A save that is refused kills nobody: the next one must not take what it has given up waiting for
/// as arrived.
TEST(ADeviceThatHungForAWhile, HasItsParametersSavedAsTheyAreOnceItGoesOn) {
  testing::on_ranks(1, [](const std::shared_ptr<Collective>& comm) {
    Obstacle obstacle;
    const Toy toy(torch::kFloat, device(0));
    Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                        testing::toy_options(2).offload(Offload::kHost).device_timeout(kLimit),
                        comm);
    obstacle.put_on_present_stream(device(0));
    // On the stream behind the obstacle, as an operator of LibTorch's would be.
    on_present_stream(device(0),
                      [to = static_cast<float*>(behind(toy.gain.data_ptr()))] { *to = 0.25f; });
    toy.gain.unsafeGetTensorImpl()->bump_version();
    const CheckpointAccess access(optimizer);
    EXPECT_THAT(access.state({}).part.refusal, HasSubstr("parameters to reach the host"));
    EXPECT_THAT(access.state({}).part.refusal, HasSubstr("parameters to reach the host"));
    obstacle.open();
    EXPECT_EQ(access.state({}).part.refusal, "");
    EXPECT_EQ(optimizer.gather("gain", StateKind::kMaster).item<float>(), 0.25f);
    optimizer.shutdown();
  });
}

TEST_P(AHangingDevice, IsRefusedFromThenOnWithTheSameReason) {
  const auto errors = errors_where_one_hangs(
      GetParam(), [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
        const auto loss = toy.loss(testing::toy_batch(0, on.index()));
        obstacle.put_on_other_streams(on);
        EXPECT_THROW(
            {
              optimizer.backward(loss);
              optimizer.step();
            },
            CommError);
        optimizer.zero_grad();
      });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                AllOf(HasSubstr("refuses to go on"), HasSubstr("the gradients of bucket 0 (")));
}

TEST_P(AHangingDevice, DoesNotKeepAnOptimizerFromBeingDestroyed) {
  Obstacle obstacle;
  const auto start = Clock::now();
  {
    const auto comm = make_threads(1, kFarTooLong)[0];
    const Toy toy(torch::kFloat, device(0));
    Optimizer optimizer(
        toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
        testing::toy_options(GetParam()).offload(Offload::kHost).device_timeout(kLimit), comm);
    optimizer.backward(toy.loss(testing::toy_batch(0, 0)));
    obstacle.put_on_present_stream(device(0));
    optimizer.step();
    optimizer.shutdown();
  }
  EXPECT_GE(Clock::now() - start, kLimit);  // it had its time
  EXPECT_LT(Clock::now() - start, kFarTooLong);
}

TEST_P(AHangingDevice, ThatHasTheStateIsAnErrorOnEveryRank) {
  const auto errors = errors_where_one_hangs(
      GetParam(),
      [](Optimizer& optimizer, const Toy& toy, Obstacle& obstacle, c10::Device on) {
        const auto loss = toy.loss(testing::toy_batch(0, on.index()));
        obstacle.put_on_other_streams(on);
        optimizer.backward(loss);
        optimizer.step();
      },
      Place::kDevice);
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("waited 150 ms on fake:1 for gradients on their way to the host"));
}

TEST_P(AHangingDevice, ThatHasTheStateOfOneRankIsAnErrorOfTheStep) {
  Obstacle obstacle;
  const auto start = Clock::now();
  const auto errors = testing::errors_on_ranks(1, [&](const std::shared_ptr<Collective>& comm) {
    const Toy toy(torch::kFloat, device(0));
    Optimizer optimizer(
        toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
        in_place(testing::toy_options(GetParam()), Place::kDevice).device_timeout(kLimit), comm);
    const auto loss = toy.loss(testing::toy_batch(0, 0));
    obstacle.put_on_other_streams(device(0));
    optimizer.backward(loss);
    optimizer.step();
  });
  EXPECT_THAT(errors[0], HasSubstr("waited 150 ms on fake:0 for "));
  EXPECT_LT(Clock::now() - start, kFarTooLong);  // the end of the optimizer, too
}

INSTANTIATE_TEST_SUITE_P(OfEachStage, AHangingDevice, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace zero::accelerator_test
