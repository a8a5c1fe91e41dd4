#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/nccl/fake/weather.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// The `failing`-th call of the device fails, once. The error, or nothing.
std::string error_of_a_step(std::int64_t failing, int stage, Place place) {
  return testing::errors_on_ranks(1, [&](const std::shared_ptr<Collective>& comm) {
    const Toy toy(torch::kBFloat16, device(0));
    Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                        in_place(testing::toy_options(stage), place), comm);
    const auto calls = std::make_shared<std::atomic<std::int64_t>>(0);
    nccl_test::Weather::now().on_call([calls, failing](const std::string& function, int) {
      static const std::set<std::string> kCounted = {
          "cudaEventRecord", "cudaStreamWaitEvent", "ordered_sum", "cast", "sum_exactly", "adamw"};
      const bool counts = kCounted.count(function) > 0;
      return counts && (*calls)++ == failing ? 700 : 0;
    });
    try {
      optimizer.backward(toy.loss(testing::toy_batch(0, 0)));
      optimizer.step();
    } catch (...) {
      nccl_test::Weather::now().on_call(nullptr);
      throw;
    }
    nccl_test::Weather::now().on_call(nullptr);
    optimizer.shutdown();
  })[0];
}

class FailingDevices : public ::testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(, FailingDevices, kPlaces, name_of);

TEST_P(FailingDevices, EachCallOfTheDeviceMayFailAndItsErrorComesOutOfBackwardOrStep) {
  for (const int stage : {0, 2}) {
    bool is_through = false;
    int errors = 0, in_the_update = 0;
    for (std::int64_t failing = 0; failing < 500 && !is_through; ++failing) {
      const std::string error = error_of_a_step(failing, stage, GetParam());
      is_through = error.empty();  // there was no such call
      if (is_through) break;
      ++errors;
      EXPECT_THAT(error, AnyOf(HasSubstr("the fake device failed"),
                               HasSubstr("a kernel could not be started on the GPU")));
      if (error.find("start again from saved weights") != error.npos) ++in_the_update;
    }
    EXPECT_TRUE(is_through);
    EXPECT_GT(errors, 10);
    EXPECT_GT(in_the_update, 0);
    EXPECT_LT(in_the_update, errors);
  }
}

/// The `failing`-th piece of pinned memory is refused to the last rank. Each rank's error.
std::vector<std::string> errors_without_room(int world, int failing, Place place) {
  const auto pieces = std::make_shared<std::atomic<int>>(0);
  nccl_test::Weather::now().on_call([=](const std::string& function, int index) {
    const bool counts = function == "cudaHostAlloc" && index == world - 1;
    return counts && (*pieces)++ == failing ? 2 : 0;
  });
  const auto errors = testing::errors_on_ranks(world, [&](const std::shared_ptr<Collective>& comm) {
    const c10::DeviceGuard here(device(comm->rank()));
    const Toy toy(torch::kFloat, device(comm->rank()));
    const auto make = [&] {
      return std::make_unique<Optimizer>(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                                         in_place(testing::toy_options(2), place), comm);
    };
    std::string error;
    try {
      make()->shutdown();
    } catch (const Error& refused) {
      error = refused.what();
    }
    const auto optimizer = make();  // the communicator is as it was
    optimizer->backward(toy.loss(testing::toy_batch(0, comm->rank())));
    optimizer->step();
    optimizer->shutdown();
    if (!error.empty()) throw Error(error);
  });
  nccl_test::Weather::now().on_call(nullptr);
  return errors;
}

/// A few bytes that are taken later: by backward() or step(), and the call says so.
bool is_of_a_call(const std::string& error) {
  return error.find("for a loss") != error.npos ||
         error.find("for the constants of a step") != error.npos;
}

TEST(FailingMemory, PinnedMemoryThatOneRankDoesNotGetIsAnErrorOnEveryRankNamingRankAndBytes) {
  bool image = false, landing = false;
  for (int failing = 0; failing < 100; ++failing) {
    const auto errors = errors_without_room(2, failing, Place::kHost);
    if (errors[0].empty() && errors[1].empty()) break;  // there was no such piece
    if (is_of_a_call(errors[1])) break;
    for (const std::string& error : errors) {
      EXPECT_EQ(error, errors[0]);
      EXPECT_THAT(error, ::testing::MatchesRegex(
                             "rank 1: device: there is no room for pinned host memory;.*: wanted "
                             "[1-9][0-9]* bytes for .*: the fake device failed: allocating .*"));
      image = image || error.find("the image of parameter first_bias") != error.npos;
      landing = landing || error.find("gradients on their way") != error.npos;
    }
  }
  EXPECT_TRUE(image);
  EXPECT_TRUE(landing);
}

TEST(FailingMemory, StateOnADeviceNeedsSomePinnedMemoryAndItsLackIsAnErrorOnEveryRank) {
  int failures = 0;
  for (int failing = 0; failing < 100; ++failing) {
    const auto errors = errors_without_room(2, failing, Place::kDevice);
    if (errors[0].empty() && errors[1].empty()) break;  // there was no such piece
    if (is_of_a_call(errors[1])) break;
    ++failures;
    for (const std::string& error : errors) {
      EXPECT_EQ(error, errors[0]);
      EXPECT_THAT(error, HasSubstr("rank 1: device: there is no room for pinned host memory;"));
    }
  }
  EXPECT_GE(failures, 4);  // the payload's three and the norm's
}

}  // namespace
}  // namespace zero::accelerator_test
