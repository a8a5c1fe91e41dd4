// For a machine with a GPU.

#include "libzero/train/device.h"
#include "tests/accelerator/exact_gradients.h"

namespace zero::accelerator_test {
namespace {

TEST(OnCuda, ExactGradientsTrainToTheBitsOfTheCpu) {
  const CudaFound found = find_cuda();
  if (found.devices == 0) GTEST_SKIP() << "no GPU: " << found.missing;
  const auto device_of = [&](int rank) {
    return c10::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(rank % found.devices));
  };
  for (const Options& place : {Options().offload(Offload::kHost), Options()})
    expect_bits_of_the_cpu(device_of, place);
}

}  // namespace
}  // namespace zero::accelerator_test
