#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "libzero/collective/self.h"
#include "tests/optim/live_bytes.h"
#include "tests/optim/memory_model.h"
#include "tests/optim/ranks.h"

namespace zero {
namespace {

using testing::on_ranks;
using testing::table_bytes;

using Use = std::function<void(int stage, int world_size, torch::Dtype dtype)>;

void for_each_configuration(const Use& use) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    for (const int world_size : {1, 2, 4, 8}) {
      for (const int stage : {0, 1, 2}) {
        SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size) +
                     " " + c10::toString(dtype));
        use(stage, world_size, dtype);
      }
    }
  }
}

torch::Tensor sum_of(const std::vector<NamedTensor>& parameters) {
  auto sum = torch::zeros({});
  for (const NamedTensor& p : parameters) {
    if (p.tensor.requires_grad()) sum = sum + p.tensor.to(torch::kFloat).sum();
  }
  return sum;
}

/// Of every rank, after two steps.
std::vector<MemoryReport> reports_of(
    int stage, int world_size, const std::function<std::vector<NamedTensor>()>& make_parameters,
    const std::vector<NamedTensor>& buffers = {}) {
  std::vector<MemoryReport> reports(static_cast<std::size_t>(world_size));
  on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
    const auto parameters = make_parameters();
    Optimizer optimizer(parameters, buffers, AdamWOptions(0.1),
                        Options().stage(stage).bucket_bytes(1 << 17).first_bucket_bytes(1 << 16),
                        comm);
    const std::int64_t at_first = optimizer.memory().total();
    for (int step = 0; step < 2; ++step) {
      optimizer.backward(sum_of(parameters));
      optimizer.step();
    }
    const MemoryReport report = optimizer.memory();
    EXPECT_EQ(report.total(), at_first) << "what is held does not grow";
    std::int64_t kept = 0;
    for (const NamedTensor& p : parameters) {
      if (p.name == "head" || !p.tensor.grad().defined()) continue;  // tied to the embedding
      kept += static_cast<std::int64_t>(p.tensor.grad().nbytes());
    }
    EXPECT_EQ(report.gradients, kept) << "what .grad really holds";
    reports[static_cast<std::size_t>(comm->rank())] = report;
    optimizer.shutdown();
  });
  return reports;
}

TEST(Memory, EachRankHoldsTheFormulasBytesWhereShardsDivideEvenly) {
  for_each_configuration([](int stage, int world_size, torch::Dtype dtype) {
    const std::int64_t numel = 3 * 8 * 4096;
    const auto make = [&] { return testing::zeros({{8, 4096}, {16, 4096}}, dtype); };
    for (const MemoryReport& report : reports_of(stage, world_size, make)) {
      EXPECT_EQ(report.by_formula() * world_size, table_bytes(stage, world_size, dtype, numel));
      // Arrays of an arena begin at different offsets of a page: two pages each at most.
      EXPECT_LE(report.alignment, 2 * 4 * 2 * 4096);
      EXPECT_EQ(report.frozen + report.buffers, 0);
    }
  });
}

TEST(Memory, EachKindHasTheBytesThatItsNameSays) {
  for_each_configuration([](int stage, int world_size, torch::Dtype dtype) {
    const std::int64_t numel = 2 * 8 * 4096;
    const std::int64_t item = dtype == torch::kFloat ? 4 : 2;
    const std::int64_t shard = numel / world_size;
    const std::int64_t stepped = stage == 0 ? numel : shard;
    const auto make = [&] { return testing::zeros({{16, 4096}}, dtype); };
    for (const MemoryReport& report : reports_of(stage, world_size, make)) {
      EXPECT_EQ(report.parameters, item * numel);
      EXPECT_EQ(report.gradients, stage == 2 ? 0 : item * numel);
      EXPECT_EQ(report.accumulator, 4 * shard);
      EXPECT_EQ(report.master, dtype == torch::kFloat ? 0 : 4 * stepped);
      EXPECT_EQ(report.exp_avg, 4 * stepped);
      EXPECT_EQ(report.exp_avg_sq, 4 * stepped);
      const std::int64_t cap = (std::int64_t{1} << 17) / item;
      EXPECT_EQ(report.staging, (stage == 0 ? 4 : item) * std::min(numel, cap))
          << "a bucket within the cap is whole, one beyond travels in pieces";
    }
  });
}

TEST(Memory, RanksTogetherHoldTheFormulasBytesForOddShapes) {
  for_each_configuration([](int stage, int world_size, torch::Dtype dtype) {
    std::mutex mutex;
    testing::LanguageModel model(dtype);
    std::int64_t numel = 0, frozen = 0;
    for (const torch::Tensor& p : model->parameters()) {
      (p.requires_grad() ? numel : frozen) += p.numel();
    }
    numel -= model->embedding.numel();  // listed twice, as embedding and as head
    const auto make = [&] {
      const std::lock_guard lock(mutex);  // the default generator belongs to the process
      return named_parameters(*testing::LanguageModel(dtype));
    };
    std::int64_t total = 0;
    for (const MemoryReport& report : reports_of(stage, world_size, make)) {
      total += report.by_formula();
      EXPECT_EQ(report.frozen, frozen * (dtype == torch::kFloat ? 4 : 2));
      EXPECT_GT(report.staging, 0);
    }
    EXPECT_EQ(total, table_bytes(stage, world_size, dtype, numel));
  });
}

/// The optimizer's own arrays are the only over-aligned ones, and its arenas the only mappings
/// without reserve.
TEST(Memory, ReportedBytesAreTheAllocatedBytes) {
  for_each_configuration([](int stage, int world_size, torch::Dtype dtype) {
    std::mutex mutex;
    std::int64_t reported = 0;
    const std::int64_t before = testing::live_library_bytes();
    on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
      std::unique_lock lock(mutex);
      testing::LanguageModel model(dtype);
      lock.unlock();
      Optimizer optimizer(*model, AdamWOptions(0.1),
                          Options().stage(stage).bucket_bytes(9000).first_bucket_bytes(3000), comm);
      const MemoryReport report = optimizer.memory();
      lock.lock();
      reported += report.accumulator + report.master + report.exp_avg + report.exp_avg_sq +
                  report.alignment + report.staging;
      lock.unlock();
      comm->barrier("all have built")->wait();
      EXPECT_EQ(testing::live_library_bytes() - before, reported);
      EXPECT_EQ(report.buffers, static_cast<std::int64_t>(model->mask.nbytes()));
      comm->barrier("all have looked")->wait();
      optimizer.shutdown();
    });
    EXPECT_EQ(testing::live_library_bytes(), before) << "all of it is given back";
  });
}

TEST(Memory, Stage2KeepsNoGradientTensorAndTheOthersKeepTheirs) {
  for (const int stage : {0, 1, 2}) {
    const auto parameters = testing::zeros({{5, 7}, {3}}, torch::kFloat);
    Optimizer optimizer(parameters, {}, AdamWOptions(0.1), Options().stage(stage), make_self());
    std::vector<const void*> addresses;
    for (int step = 0; step < 3; ++step) {
      for (const NamedTensor& p : parameters) {
        ASSERT_EQ(p.tensor.grad().defined(), stage < 2);
        if (stage < 2) addresses.push_back(p.tensor.grad().data_ptr());
      }
      optimizer.backward(sum_of(parameters));
      optimizer.step();
    }
    for (std::size_t i = 2; i < addresses.size(); ++i) EXPECT_EQ(addresses[i], addresses[i - 2]);
  }
}

TEST(Memory, StepsSayWhatIsHeldAlsoAfterItHasGrown) {
  const auto comm = make_self();
  const torch::Tensor weight = torch::ones({50, 100}, torch::kBFloat16).requires_grad_();
  const std::vector<NamedTensor> parameters = {{"weight", weight}};
  Optimizer optimizer(parameters, {}, AdamWOptions(1e-3), Options().stage(2).deterministic(false),
                      comm);
  optimizer.backward(sum_of(parameters));
  const std::int64_t before = optimizer.step().host_bytes;
  EXPECT_EQ(before, optimizer.memory().total());
  {
    const auto hold = optimizer.no_sync();
    optimizer.backward(sum_of(parameters));
  }
  optimizer.backward(sum_of(parameters));
  const std::int64_t after = optimizer.step().host_bytes;
  EXPECT_EQ(after, optimizer.memory().total());
  EXPECT_GE(after, before + 4 * weight.numel());
  optimizer.shutdown();
}

}  // namespace
}  // namespace zero
