#include <gtest/gtest.h>
#include <torch/torch.h>

#include "checkpoint/memory_store.h"
#include "checkpoint/rank_memory.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"
#include "tests/temporary_folder.h"
#include "tests/train/weights_file.h"

namespace zero::accelerator_test {
namespace {

using Comm = std::shared_ptr<Collective>;

struct Part {
  bool on_device;
  std::int64_t from, to;  // steps
};

/// A run in parts, each of which saves, and continues what the one before it saved.
std::vector<torch::Tensor> run(const std::vector<Part>& parts, int stage, torch::Dtype dtype,
                               Place place) {
  const testing::TemporaryFolder folder;
  std::vector<torch::Tensor> result;
  for (const Part& part : parts) {
    testing::on_ranks(2, [&](const Comm& comm) {
      const Toy toy(dtype, part.on_device ? device(comm->rank()) : torch::kCPU);
      if (part.from > 0) {  // everything comes from the checkpoint
        const torch::NoGradGuard no_grad;
        for (const NamedTensor& item : toy.parameters()) item.tensor.zero_();
        toy.scale.zero_();
      }
      Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                          in_place(testing::toy_options(stage), place), comm);
      if (part.from > 0) {
        EXPECT_TRUE(optimizer.load(folder / "run").found);
      }
      for (std::int64_t step = part.from; step < part.to; ++step) {
        optimizer.backward(toy.loss(testing::toy_batch(step, comm->rank())));
        optimizer.step();
      }
      optimizer.save(folder / "run");
      optimizer.shutdown();
      if (comm->rank() != 1 || &part != &parts.back()) return;
      for (const NamedTensor& item : toy.parameters())
        result.push_back(item.tensor.detach().to(torch::kCPU).clone());
      result.push_back(toy.scale.to(torch::kCPU).clone());
    });
  }
  return result;
}

class CheckpointsOfADevice : public ::testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(, CheckpointsOfADevice, kPlaces, name_of);

TEST_P(CheckpointsOfADevice, ResumeToTheSameBitsOnTheCpuAndTheOtherWayRound) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const int stage : {0, 1, 2}) {
      const auto expected = run({{false, 0, 4}}, stage, dtype, GetParam());
      const auto up = run({{false, 0, 2}, {true, 2, 4}}, stage, dtype, GetParam());
      const auto down = run({{true, 0, 2}, {false, 2, 4}}, stage, dtype, GetParam());
      ASSERT_EQ(up.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(torch::equal(up[i], expected[i])) << "up, stage " << stage << ", tensor " << i;
        EXPECT_TRUE(torch::equal(down[i], expected[i]))
            << "down, stage " << stage << ", tensor " << i;
      }
    }
  }
}

TEST(CheckpointsOfDevices, SayWhatEachRankHeldOnTheHostAndOnItsGpu) {
  const auto store = checkpoint::make_memory_store();
  std::vector<checkpoint::RankMemory> held(2);
  testing::on_ranks(2, [&](const Comm& comm) {
    const Toy toy(torch::kFloat, comm->rank() == 1 ? device(1) : torch::kCPU);
    Optimizer optimizer(toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
                        testing::toy_options(2).offload(Offload::kHost), comm);
    optimizer.save(*store);
    const MemoryReport memory = optimizer.memory();
    held[static_cast<std::size_t>(comm->rank())] = {memory.on_host(), memory.on_device};
    optimizer.shutdown();
  });
  EXPECT_EQ(held[0].device, 0);
  EXPECT_GT(held[1].device, 0);
  const auto reader = store->open(0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(checkpoint::memory_of(reader->rank_blobs(rank), rank),
              held[static_cast<std::size_t>(rank)]);
  }
}

TEST_P(CheckpointsOfADevice, ParametersOfAFileReachTheDeviceAsTheyReachTheCpu) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "weights.safetensors";
  testing::Tensors weights;
  const Toy source(torch::kFloat, torch::kCPU);
  for (const NamedTensor& item : source.parameters()) {
    if (item.name != "output") weights[item.name] = item.tensor.detach() * 0.5 + 0.01;
  }
  weights["scale"] = torch::full({1}, 1.5f);
  testing::write_weights(file, weights);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    testing::on_ranks(2, [&](const Comm& comm) {
      const Toy on_cpu(dtype, torch::kCPU);
      const Toy on_device(dtype, device(comm->rank()));
      for (const Toy* toy : {&on_cpu, &on_device}) {
        Optimizer optimizer(toy->parameters(), toy->buffers(), AdamWOptions(1e-2),
                            in_place(testing::toy_options(1), GetParam()), comm);
        LoadParametersOptions options;
        options.allow_dtype_change(true);
        optimizer.load_parameters(file, options);
        optimizer.backward(toy->loss(testing::toy_batch(0, comm->rank())));
        optimizer.step();
        optimizer.shutdown();
      }
      for (std::size_t i = 0; i < on_cpu.parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(on_cpu.parameters()[i].tensor.detach(),
                                 on_device.parameters()[i].tensor.detach().to(torch::kCPU)))
            << on_cpu.parameters()[i].name;
      }
      EXPECT_TRUE(torch::equal(on_cpu.scale, on_device.scale.to(torch::kCPU)));
    });
  }
}

}  // namespace
}  // namespace zero::accelerator_test
