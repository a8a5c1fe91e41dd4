#include "libzero/estimate/memory_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <mutex>

#include "libzero/base/error.h"
#include "tests/optim/memory_model.h"
#include "tests/optim/ranks.h"
#include "tests/optim/rule_case.h"
#include "tests/optim/toy_model.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::on_ranks;
using ::testing::ThrowsMessage;
using testing::toy_options;
using testing::ToyModel;

constexpr auto kKinds = {
    &MemoryReport::parameters,      &MemoryReport::gradients, &MemoryReport::accumulator,
    &MemoryReport::master,          &MemoryReport::exp_avg,   &MemoryReport::exp_avg_sq,
    &MemoryReport::momentum_buffer, &MemoryReport::ema,       &MemoryReport::alignment,
    &MemoryReport::block_sums,      &MemoryReport::staging,   &MemoryReport::local_sums,
    &MemoryReport::frozen,          &MemoryReport::buffers,   &MemoryReport::offloaded,
    &MemoryReport::offload_ring};

void expect_equal(const MemoryReport& got, const MemoryReport& expected) {
  int index = 0;
  for (const auto kind : kKinds) {
    EXPECT_EQ(got.*kind, expected.*kind) << "kind " << index;
    ++index;
  }
  EXPECT_EQ(got.total(), expected.total());
}

/// The optimizer's own report of rank 0 beside the estimate from rows alone.
void compare(torch::Dtype dtype, int world_size, const Options& options,
             std::optional<DType> wire) {
  on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
    ToyModel model(dtype);
    Optimizer optimizer(*model, AdamWOptions(0.1), options, comm);
    if (comm->rank() == 0) {
      const Layout& layout = optimizer.layout();
      std::vector<ParameterSpec> rows(layout.parameters().begin(), layout.parameters().end());
      rows.push_back({.name = "scale",
                      .shape = {1},
                      .dtype = rows.front().dtype,
                      .group = -1,
                      .trainable = false});
      const MemoryEstimate got =
          estimate_memory(Layout(rows, layout.options()),
                          {.stage = options.stage(), .world_size = world_size, .wire = wire});
      expect_equal(got.report, optimizer.memory());
    }
    optimizer.shutdown();
  });
}

TEST(MemoryEstimates, AreTheOptimizersOwnReportToTheByte) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    for (const int world_size : {1, 2, 3, 8}) {
      for (const int stage : {0, 1, 2}) {
        SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size) +
                     " " + c10::toString(dtype));
        compare(dtype, world_size, toy_options(stage), std::nullopt);
        compare(dtype, world_size, Options().stage(stage), std::nullopt);
      }
    }
  }
}

/// A language model with an optimizer of this rule, its own report of rank 0, and the estimate.
void compare_rule(const testing::RuleCase& rule, torch::Dtype dtype, int world_size, int stage) {
  std::mutex mutex;
  on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
    std::unique_lock lock(mutex);  // the default generator belongs to the process
    testing::LanguageModel model(dtype);
    lock.unlock();
    const auto options = Options().stage(stage).ema(rule.ema).bucket_bytes(9000);
    Optimizer optimizer(*model, rule.options(0.1, 0.01), options, comm);
    if (comm->rank() == 0) {
      const Layout& layout = optimizer.layout();
      std::vector<ParameterSpec> rows(layout.parameters().begin(), layout.parameters().end());
      rows.push_back({.name = "mask",
                      .shape = {65, 65},
                      .dtype = DType::kUInt8,
                      .group = -1,
                      .trainable = false});
      const MemoryEstimate got =
          estimate_memory(Layout(rows, layout.options()),
                          {.stage = stage, .world_size = world_size, .kept = rule.kept});
      expect_equal(got.report, optimizer.memory());
    }
    optimizer.shutdown();
  });
}

TEST(MemoryEstimates, OfEveryRuleWithAndWithoutAverageAreTheOptimizersOwnReportToTheByte) {
  for (const testing::RuleCase& rule : testing::all_rules()) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      for (const int world_size : {1, 3}) {
        for (const int stage : {0, 1, 2}) {
          SCOPED_TRACE(rule.name + " stage " + std::to_string(stage) + " world " +
                       std::to_string(world_size) + " " + c10::toString(dtype));
          compare_rule(rule, dtype, world_size, stage);
        }
      }
    }
  }
}

TEST(MemoryEstimates, FollowTheWiresDtypeToTheByte) {
  for (const int stage : {0, 1, 2}) {
    compare(torch::kBFloat16, 2, toy_options(stage).wire(torch::kFloat), DType::kFloat32);
    compare(torch::kFloat, 2, toy_options(stage).wire(torch::kBFloat16), DType::kBFloat16);
  }
}

TEST(MemoryEstimates, FollowAlignmentAndPiecesToTheByte) {
  for (const std::int64_t alignment : {1, 64, 100000}) {
    compare(torch::kFloat, 3, Options().stage(2).shard_alignment(alignment).bucket_bytes(4096),
            std::nullopt);
  }
}

TEST(MemoryEstimates, AreTheTablesBytesForEachParameter) {
  const std::int64_t n = std::int64_t{1} << 24;
  const auto bytes = [&](DType dtype, int stage, int world) {
    const Layout layout({{.name = "w", .shape = {n}, .dtype = dtype}}, {});
    return estimate_memory(layout, {.stage = stage, .world_size = world}).report.by_formula();
  };
  for (const int world : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(bytes(DType::kFloat32, 0, world), 16 * n + 4 * n / world);
    EXPECT_EQ(bytes(DType::kFloat32, 1, world), 8 * n + 12 * n / world);
    EXPECT_EQ(bytes(DType::kFloat32, 2, world), 4 * n + 12 * n / world);
    EXPECT_EQ(bytes(DType::kBFloat16, 0, world), 16 * n + 4 * n / world);
    EXPECT_EQ(bytes(DType::kBFloat16, 1, world), 4 * n + 16 * n / world);
    EXPECT_EQ(bytes(DType::kFloat16, 2, world), 2 * n + 16 * n / world);
  }
}

TEST(MemoryEstimates, ARuleTakesFourBytesForEachElementOfWhatItKeeps) {
  constexpr std::int64_t kElements = std::int64_t{1} << 24;
  const Layout layout({{.name = "w", .shape = {kElements}, .dtype = DType::kBFloat16}}, {});
  const auto bytes = [&](int stage, std::vector<StateKind> kept) {
    return estimate_memory(layout, {.stage = stage, .world_size = 4, .kept = std::move(kept)})
        .report.by_formula();
  };
  const std::vector<StateKind> adamw = {StateKind::kExpAvg, StateKind::kExpAvgSq};
  for (const int stage : {0, 1, 2}) {
    const std::int64_t array = 4 * kElements / (stage == 0 ? 1 : 4);
    EXPECT_EQ(bytes(stage, {}), bytes(stage, adamw) - 2 * array);
    EXPECT_EQ(bytes(stage, {StateKind::kMomentumBuffer}), bytes(stage, adamw) - array);
    EXPECT_EQ(bytes(stage, {StateKind::kMomentumBuffer, StateKind::kEma}), bytes(stage, adamw));
  }
}

TEST(MemoryEstimates, StateThatLiesElsewhereIsCountedThere) {
  const Layout layout({{.name = "w", .shape = {1000, 4096}, .dtype = DType::kBFloat16}}, {});
  const auto beside = estimate_memory(layout, {.world_size = 2});
  const auto disk = estimate_memory(layout, {.world_size = 2, .state = StatePlace::kDisk});
  EXPECT_EQ(disk.report.master + disk.report.exp_avg + disk.report.exp_avg_sq, 0);
  EXPECT_EQ(disk.report.offloaded,
            beside.report.master + beside.report.exp_avg + beside.report.exp_avg_sq);
  EXPECT_EQ(disk.report.accumulator, beside.report.accumulator);
  EXPECT_EQ(beside.report.offloaded, 0);
}

TEST(MemoryEstimates, OfAHostBesideAGpuLeaveTheModelAndItsGradients) {
  const Layout layout({{.name = "w", .shape = {1000, 4096}, .dtype = DType::kBFloat16}}, {});
  const std::vector<StateKind> kept = {StateKind::kMomentumBuffer, StateKind::kEma};
  for (const int stage : {0, 1, 2}) {
    const auto beside = estimate_memory(layout, {.stage = stage, .world_size = 2, .kept = kept});
    const auto host = estimate_memory(
        layout, {.stage = stage, .world_size = 2, .state = StatePlace::kHost, .kept = kept});
    EXPECT_EQ(host.report.total(), beside.report.parameters + beside.report.gradients);
    EXPECT_EQ(host.waiting, beside.waiting);
    constexpr std::int64_t kBucket = 1000 * 4096 * 2;
    EXPECT_EQ(host.report.offloaded,
              beside.report.total() - host.report.total() + kBucket + 2 * kBucket);
  }
}

TEST(MemoryEstimates, OfADiskAreItsBytesButForPagesAndABoundOfWhatPassesThrough) {
  for (const testing::RuleCase& rule : testing::all_rules()) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE(rule.name + " stage " + std::to_string(stage));
      on_ranks(2, [&](const std::shared_ptr<Collective>& comm) {
        ToyModel model(torch::kBFloat16, 512);
        const auto options = Options().stage(stage).bucket_bytes(4096).ema(rule.ema).offload(
            Offload::kDisk(std::filesystem::temp_directory_path().string()));
        Optimizer optimizer(*model, rule.options(0.1, 0.01), options, comm);
        if (comm->rank() == 0) {
          const MemoryReport real = optimizer.memory();
          const MemoryReport got =
              estimate_memory(
                  optimizer.layout(),
                  {.stage = stage, .world_size = 2, .state = StatePlace::kDisk, .kept = rule.kept})
                  .report;
          EXPECT_EQ(got.accumulator, real.accumulator);
          EXPECT_EQ(got.alignment, real.alignment);
          EXPECT_EQ(got.exp_avg + got.momentum_buffer + got.ema + got.master, 0);
          EXPECT_LE(got.offloaded, real.offloaded);
          EXPECT_GT(got.offloaded, real.offloaded / 2);
          EXPECT_GE(got.offload_ring, real.offload_ring);
        }
        optimizer.shutdown();
      });
    }
  }
}

TEST(MemoryEstimates, WaitingGradientsAreTwoBucketsAndTheLargestAtMost) {
  const auto waiting = [](std::vector<std::int64_t> sizes, int stage) {
    std::vector<ParameterSpec> rows;
    for (const std::int64_t size : sizes) {
      rows.push_back({.name = std::to_string(rows.size()), .shape = {size}});
    }
    return estimate_memory(Layout(rows, {.bucket_bytes = 400}), {.stage = stage}).waiting;
  };
  EXPECT_EQ(waiting({100, 100, 100, 100, 100}, 2), 800 + 400);
  EXPECT_EQ(waiting({1000, 10, 2000}, 2), 4 * 3010);
  EXPECT_EQ(waiting({1000, 10, 2000}, 1), 8000);
  EXPECT_EQ(waiting({10}, 2), 40) << "no more than there are";
}

TEST(MemoryEstimates, WrongOptionsAreRefused) {
  const Layout layout({{.name = "w", .shape = {4}}}, {});
  EXPECT_THROW(estimate_memory(layout, {.stage = 3}), ContractError);
  EXPECT_THROW(estimate_memory(layout, {.stage = -1}), ContractError);
  EXPECT_THROW(estimate_memory(layout, {.world_size = 0}), ContractError);
  EXPECT_THROW(estimate_memory(layout, {.world_size = 65537}), ContractError);
  EXPECT_THAT([&] { estimate_memory(layout, {.kept = {StateKind::kMaster}}); },
              ThrowsMessage<ContractError>(HasSubstr("master")));
  EXPECT_THROW(estimate_memory(layout, {.kept = {StateKind::kGradient}}), ContractError);
  EXPECT_THAT(
      [&] {
        estimate_memory(layout, {.kept = {StateKind::kEma, StateKind::kEma}});
      },
      ThrowsMessage<ContractError>(HasSubstr("ema")));
  const Layout huge({{.name = "w", .shape = {std::int64_t{1} << 51}}}, {});
  EXPECT_THROW(estimate_memory(huge, {}), ContractError);
}

}  // namespace
}  // namespace zero
