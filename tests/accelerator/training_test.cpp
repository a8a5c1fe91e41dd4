#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>

#include "tests/accelerator/device.h"
#include "tests/accelerator/exact_gradients.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/nccl/around.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

const bool kAround = nccl_test::Around::every_test(std::chrono::microseconds(100));

constexpr std::int64_t kMicros = 4;
constexpr std::int64_t kSteps = 4;

struct Run {
  int world_size = 1;
  int stage = 2;
  torch::Dtype dtype = torch::kFloat;
  bool on_device = true;
  Place place = Place::kHost;
  std::function<void(Options&)> configure = [](Options&) {};
};

struct Outcome {
  std::map<std::string, torch::Tensor> parameters;
  std::vector<double> losses;
  std::vector<double> norms;
};

/// Rank 0's view; every other rank's parameters are compared with it.
Outcome train(const Run& run) {
  Outcome outcome;
  std::vector<std::map<std::string, torch::Tensor>> all(static_cast<std::size_t>(run.world_size));
  testing::on_ranks(run.world_size, [&](const std::shared_ptr<Collective>& comm) {
    const Toy model(run.dtype, run.on_device ? device(comm->rank()) : torch::kCPU);
    Options options = in_place(testing::toy_options(run.stage), run.place);
    run.configure(options);
    Optimizer optimizer(model.parameters(), model.buffers(), AdamWOptions(1e-2).weight_decay(0.1),
                        options, comm);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      for (std::int64_t i = comm->rank(); i < kMicros; i += comm->size()) {
        optimizer.backward(model.loss(testing::toy_batch(step, i)));
      }
      const StepResult result = optimizer.step();
      if (comm->rank() != 0) continue;
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.grad_norm);
    }
    optimizer.shutdown();
    for (const NamedTensor& parameter : model.parameters()) {
      all[static_cast<std::size_t>(comm->rank())][parameter.name] =
          parameter.tensor.detach().to(torch::kCPU).clone();
    }
  });
  outcome.parameters = all[0];
  for (const auto& rank : all) {
    for (const auto& [name, value] : rank)
      EXPECT_TRUE(torch::equal(value, outcome.parameters[name])) << name;
  }
  return outcome;
}

void expect_same(const Outcome& expected, const Outcome& actual, const std::string& what) {
  EXPECT_EQ(expected.losses, actual.losses) << what;
  EXPECT_EQ(expected.norms, actual.norms) << what;
  for (const auto& [name, value] : expected.parameters)
    EXPECT_TRUE(torch::equal(value, actual.parameters.at(name))) << what << " parameter " << name;
}

class OnADevice : public ::testing::TestWithParam<torch::Dtype> {};

TEST_P(OnADevice, ModelsTrainToTheBitsOfTheCpuOnEveryStageAndWorld) {
  const Outcome expected = train({.dtype = GetParam(), .on_device = false});
  EXPECT_NE(expected.losses.back(), expected.losses.front());
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      for (const Place place : {Place::kHost, Place::kDevice}) {
        expect_same(
            expected,
            train({.world_size = world_size, .stage = stage, .dtype = GetParam(), .place = place}),
            "world " + std::to_string(world_size) + " stage " + std::to_string(stage) +
                (place == Place::kHost ? " on the host" : " on the device"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, OnADevice,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& instance) {
                           return std::string(c10::toString(instance.param));
                         });

TEST(OnTheFakeDevice, ExactGradientsTrainToTheBitsOfTheCpu) {
  for (const Place place : {Place::kHost, Place::kDevice})
    expect_bits_of_the_cpu([](int rank) { return device(rank); }, in_place(Options(), place));
}

}  // namespace
}  // namespace zero::accelerator_test
