#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/accelerator/device.h"
#include "tests/accelerator/toy.h"
#include "tests/nccl/fake/weather.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using ::testing::HasSubstr;

/// The `failing`-th call of the device fails, once. The error, or nothing.
std::string error_of_a_step(std::int64_t failing, int stage) {
  return testing::errors_on_ranks(1, [&](const std::shared_ptr<Collective>& comm) {
    const Toy toy(torch::kBFloat16, device(0));
    Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                        testing::toy_options(stage).offload(Offload::kHost), comm);
    const auto calls = std::make_shared<std::atomic<std::int64_t>>(0);
    nccl_test::Weather::now().on_call([calls, failing](const std::string& function, int) {
      const bool counts = function == "cudaEventRecord" || function == "cudaStreamWaitEvent";
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

TEST(FailingDevices, EachCallOfTheDeviceMayFailAndItsErrorComesOutOfBackwardOrStep) {
  for (const int stage : {0, 2}) {
    bool is_through = false;
    int errors = 0, in_the_update = 0;
    for (std::int64_t failing = 0; failing < 500 && !is_through; ++failing) {
      const std::string error = error_of_a_step(failing, stage);
      is_through = error.empty();  // there was no such call
      if (is_through) break;
      ++errors;
      EXPECT_THAT(error, HasSubstr("the fake device failed"));
      if (error.find("start again from saved weights") != error.npos) ++in_the_update;
    }
    EXPECT_TRUE(is_through);
    EXPECT_GT(errors, 10);
    EXPECT_GT(in_the_update, 0);
    EXPECT_LT(in_the_update, errors);
  }
}

}  // namespace
}  // namespace zero::accelerator_test
