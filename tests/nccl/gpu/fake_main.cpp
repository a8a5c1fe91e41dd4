// The same check on the fake machine: that it can be passed, and that it sees a wrong kernel.

#include <gtest/gtest.h>

#include "tests/nccl/around.h"
#include "tests/nccl/fake/apis.h"
#include "tests/nccl/gpu/check.h"

namespace zero::gpu_check {
namespace {

const bool kAround = nccl_test::Around::every_test(std::chrono::microseconds(0));

Settings small() {
  Settings settings;
  settings.elements = 5000;
  settings.rounds = 2;
  settings.devices = 4;
  return settings;
}

TEST(NcclGpuCheck, IsPassedByTheFakeMachine) {
  nccl_test::Weather::now().reset(false);
  EXPECT_EQ(check(nccl_test::fake_apis(), small()), 0);
}

TEST(NcclGpuCheck, SeesAKernelThatForgetsTheAccumulator) {
  nccl_test::Weather::now().reset(false);
  nccl::Apis apis = *nccl_test::fake_apis();
  apis.kernels.ordered_sum = [](const cuda::OrderedSum* args, cuda::Stream stream) {
    cuda::OrderedSum wrong = *args;
    wrong.accumulate = 0;
    return nccl_test::fake_kernels().ordered_sum(&wrong, stream);
  };
  EXPECT_EQ(check(std::make_shared<const nccl::Apis>(apis), small()), 1);
}

TEST(NcclGpuCheck, SeesAKernelThatTakesTheSumForTheMaximum) {
  nccl_test::Weather::now().reset(false);
  nccl::Apis apis = *nccl_test::fake_apis();
  apis.kernels.ordered_reduce = [](const cuda::OrderedReduce* args, cuda::Stream stream) {
    cuda::OrderedReduce wrong = *args;
    wrong.maximum = 0;
    return nccl_test::fake_kernels().ordered_reduce(&wrong, stream);
  };
  EXPECT_EQ(check(std::make_shared<const nccl::Apis>(apis), small()), 1);
}

}  // namespace
}  // namespace zero::gpu_check
