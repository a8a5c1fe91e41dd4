/// Random numbers of a GPU, without one: this program gives LibTorch CUDA hooks whose generator
/// computes on the CPU and says that it is a GPU's.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "libzero/train/micro_batch_random.h"
#include "libzero/train/recompute.h"

namespace zero {
namespace {

struct GpuGenerator final : at::CPUGeneratorImpl {
  GpuGenerator() { device_ = at::Device(at::kCUDA, 0); }
};

struct FakeCudaHooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool hasCUDA() const override { return true; }
  at::DeviceIndex current_device() const override { return 0; }
  at::DeviceIndex deviceCount() const override { return 1; }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    static const auto& generator = *new at::Generator(at::make_generator<GpuGenerator>());
    return generator;
  }
};

}  // namespace
}  // namespace zero

namespace at::detail {

// Instead of LibTorch's own, which has looked for CUDA before anything here can run.
__attribute__((visibility("default"))) const CUDAHooksInterface& getCUDAHooks() {
  static const auto& hooks = *new zero::FakeCudaHooks;
  return hooks;
}

}  // namespace at::detail

namespace zero {
namespace {

using torch::Tensor;

at::Generator generator_of_gpu() {
  return at::detail::getCUDAHooks().getDefaultGenerator(0);
}

/// As a dropout on the GPU would.
double draw() {
  at::Generator generator = generator_of_gpu();
  return static_cast<double>(generator.get<at::CPUGeneratorImpl>()->random()) / 4294967296.0;
}

std::vector<double> draws(int count) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(draw());
  return numbers;
}

struct Outcome {
  Tensor gradient;
  double drawn_after;
};

/// Three times what the GPU draws; another draw comes between forward and backward.
template <typename Call>
Outcome train(Call call) {
  generator_of_gpu().set_current_seed(3);
  const Tensor weight = torch::ones({3}, torch::requires_grad());
  Tensor x = torch::ones({3});
  for (int i = 0; i < 3; ++i)
    x = call([&weight](const Tensor& in) { return (in * weight * draw()).sin(); }, x);
  draw();
  x.sum().backward();
  return {weight.grad().clone(), draw()};
}

TEST(CudaRandom, RecomputeDrawsTheSameNumbersAgainAndTheStreamGoesOn) {
  const Outcome plain = train([](const auto& f, const Tensor& x) { return f(x); });
  const Outcome again = train([](const auto& f, const Tensor& x) { return recompute(f, x); });
  EXPECT_TRUE(torch::equal(plain.gradient, again.gradient));
  EXPECT_EQ(plain.drawn_after, again.drawn_after);
  const Outcome careless = train(
      [](const auto& f, const Tensor& x) { return recompute({.preserve_random = false}, f, x); });
  EXPECT_FALSE(torch::equal(plain.gradient, careless.gradient)) << "the draws matter";
}

TEST(CudaRandom, OfAMicroBatchDependsOnItAloneAndTheStreamGoesOn) {
  generator_of_gpu().set_current_seed(1);
  const std::vector<double> outside = draws(4);
  generator_of_gpu().set_current_seed(1);
  draws(2);
  std::vector<double> first, second, other;
  {
    const MicroBatchRandom random(7, 2, 5);
    first = draws(3);
  }
  EXPECT_EQ(draws(2), std::vector<double>(outside.begin() + 2, outside.end()));
  {
    const MicroBatchRandom random(7, 2, 5);
    second = draws(3);
  }
  {
    const MicroBatchRandom random(7, 2, 6);
    other = draws(3);
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

}  // namespace
}  // namespace zero
