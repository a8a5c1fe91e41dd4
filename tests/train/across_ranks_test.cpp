/// Metrics and buffers of several ranks become one.

#include "libzero/train/across_ranks.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "tests/optim/ranks.h"

namespace zero {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::errors_on_ranks;
using ::testing::HasSubstr;
using testing::on_ranks;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Comm = std::shared_ptr<Collective>;

TEST(ReduceMean, WeighsEachRank) {
  on_ranks(3, [](const Comm& comm) {
    const std::vector<double> values = {1, 2, 6}, weights = {1, 1, 2};
    const auto rank = static_cast<std::size_t>(comm->rank());
    EXPECT_EQ(reduce_mean(values[rank], weights[rank], *comm), (1 + 2 + 12) / 4.0);
  });
}

TEST(ReduceMean, SeveralValuesAndARankWithNothing) {
  on_ranks(2, [](const Comm& comm) {
    const bool idle = comm->rank() == 0;
    const std::vector<double> mine = idle ? std::vector{kNan, kNan} : std::vector{3.0, -1.0};
    EXPECT_THAT(reduce_mean(mine, idle ? 0 : 7, *comm), ElementsAre(3, -1));
  });
  on_ranks(1, [](const Comm& comm) { EXPECT_EQ(reduce_mean(2.5, 0.1, *comm), 2.5); });
}

TEST(ReduceMean, BadWeightsAreRefusedOnEveryRank) {
  for (const double bad : {-1.0, kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(
        errors_on_ranks(
            3, [&](const Comm& comm) { reduce_mean(1, comm->rank() == 1 ? bad : 1, *comm); }),
        Each(HasSubstr("rank 1 passed")));
  }
  EXPECT_THAT(errors_on_ranks(2, [](const Comm& comm) { reduce_mean(1, 0, *comm); }),
              Each(HasSubstr("all are 0")));
  EXPECT_THAT(errors_on_ranks(2,
                              [](const Comm& comm) {
                                const std::vector<double> mine(comm->rank() == 0 ? 1 : 2, 1.0);
                                reduce_mean(mine, 1, *comm);
                              }),
              Each(HasSubstr("mean of metrics")));
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    half = register_buffer("half", torch::zeros({2}, torch::kHalf));
    flags = register_buffer("flags", torch::zeros({2}, torch::kBool));
    strided = register_buffer("strided", torch::zeros({2, 3}).t());
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor half, flags, strided;
};
TORCH_MODULE(Net);

TEST(SyncBuffers, BatchNormsStatisticsBecomeTheMeanAndItsCountTheLargest) {
  on_ranks(3, [](const Comm& comm) {
    Net net;
    const int rank = comm->rank();
    net->norm->running_mean = net->norm->running_mean.fill_(rank);
    net->norm->running_var[1] = 3.0 * rank;
    net->norm->num_batches_tracked.fill_(10 - rank);
    net->half.fill_(0.5 * rank);
    net->flags[1] = rank == 1;
    net->strided[2][0] = 6 * rank;
    sync_buffers(*net, *comm);
    EXPECT_TRUE(torch::equal(net->norm->running_mean, torch::ones({2})));
    EXPECT_TRUE(torch::equal(net->norm->running_var, torch::tensor({1.0f, 3.0f})));
    EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 10);
    EXPECT_EQ(net->half.scalar_type(), torch::kHalf);
    EXPECT_TRUE(torch::equal(net->half, torch::full({2}, 0.5, torch::kHalf)));
    EXPECT_TRUE(torch::equal(net->flags, torch::tensor({false, true})));
    EXPECT_EQ(net->strided[2][0].item<float>(), 6);
    EXPECT_EQ(net->strided.sum().item<float>(), 6);
  });
}

TEST(SyncBuffers, RealBatchesGiveTheStatisticsOfAllRanks) {
  std::vector<torch::Tensor> means(2);
  torch::Tensor synced;
  on_ranks(2, [&](const Comm& comm) {
    torch::nn::BatchNorm1d norm(2);
    norm(torch::arange(8).view({4, 2}).to(torch::kFloat) * (comm->rank() + 1));
    means[static_cast<std::size_t>(comm->rank())] = norm->running_mean.clone();
    sync_buffers(*norm, *comm);
    if (comm->rank() == 0) synced = norm->running_mean;
  });
  EXPECT_FALSE(torch::equal(means[0], means[1]));
  EXPECT_TRUE(torch::allclose(synced, (means[0] + means[1]) / 2));
}

TEST(SyncBuffers, RanksWithOtherBuffersAreNamedAndNothingChanges) {
  EXPECT_THAT(errors_on_ranks(2,
                              [](const Comm& comm) {
                                const torch::Tensor mine = torch::full({1 + comm->rank()}, 5.0f);
                                try {
                                  sync_buffers({{"count", mine}}, *comm);
                                } catch (const ContractError&) {
                                  EXPECT_EQ(mine[0].item<float>(), 5);
                                  throw;
                                }
                              }),
              Each(HasSubstr("rank 1 has 'buffer count: Float [2]'")));
  EXPECT_THAT(errors_on_ranks(1,
                              [](const Comm& comm) {
                                const auto wave = torch::zeros({1}, torch::kComplexFloat);
                                sync_buffers({{"wave", wave}}, *comm);
                              }),
              Each(HasSubstr("complex buffers have no mean here; leave it out: wave")));
}

}  // namespace
}  // namespace zero
