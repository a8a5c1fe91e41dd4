#include "libzero/train/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backends/rendezvous/topology.h"
#include "libzero/base/error.h"
#include "tests/optim/ranks.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CudaFound eight() {
  return {8, ""};
}
CudaFound one() {
  return {1, ""};
}
CudaFound none() {
  return {0, "libwhatever.so.3 is not there"};
}

template <class Error>
std::string refusal(const std::string& text, int local_rank, CudaFound (*find)()) {
  try {
    choose_device(text, local_rank, find);
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(Device, CpuDoesNotLookForCuda) {
  EXPECT_TRUE(choose_device("cpu", 0, [] {
                ADD_FAILURE() << "looked";
                return none();
              }).is_cpu());
}

TEST(Device, EachRankOfAHostGetsTheGpuOfItsNumber) {
  EXPECT_EQ(choose_device("cuda", 0, eight).str(), "cuda:0");
  EXPECT_EQ(choose_device("cuda", 7, eight).str(), "cuda:7");
  EXPECT_EQ(choose_device("auto", 5, eight).str(), "cuda:5");
}

/// `zero run -n 8` sets these, as torchrun does.
TEST(Device, TheLaunchersLocalRankLeadsToAGpuForEachRank) {
  std::set<std::string> gpus;
  for (int rank = 0; rank < 8; ++rank) {
    const std::map<std::string, std::string> variables{
        {"RANK", std::to_string(rank)},       {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", "8"},
        {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", "29500"}};
    const Topology topology =
        topology_from([&](const std::string& name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        });
    const c10::Device device = choose_device("cuda", topology.local_rank, eight);
    EXPECT_EQ(device.index(), rank);
    gpus.insert(device.str());
  }
  EXPECT_EQ(gpus.size(), 8u);
}

TEST(Device, ARankThatSeesOneGpuTakesIt) {
  EXPECT_EQ(choose_device("cuda", 3, one).str(), "cuda:0");
}

TEST(Device, AGpuCanBeNamed) {
  EXPECT_EQ(choose_device("cuda:6", 0, eight).str(), "cuda:6");
  EXPECT_THAT(refusal<ContractError>("cuda:8", 0, eight),
              AllOf(HasSubstr("below 8"), HasSubstr("cuda:8")));
  EXPECT_THAT(refusal<ContractError>("cuda:-1", 0, eight), HasSubstr("cuda:-1"));
  EXPECT_THAT(refusal<ContractError>("cuda:", 0, eight), HasSubstr("below 8"));
  EXPECT_THAT(refusal<ContractError>("cuda:1x", 0, eight), HasSubstr("cuda:1x"));
}

TEST(Device, MoreRanksThanGpusAreRefused) {
  EXPECT_THAT(refusal<ContractError>("cuda", 8, eight),
              AllOf(HasSubstr("more ranks than GPUs"), HasSubstr("rank 8"), HasSubstr("GPUs 8")));
}

TEST(Device, WithoutCudaTheErrorSaysWhatIsMissingAndAutoTakesTheCpu) {
  EXPECT_THAT(refusal<Unavailable>("cuda", 0, none),
              AllOf(HasSubstr("'cuda'"), HasSubstr("libwhatever.so.3 is not there")));
  EXPECT_TRUE(choose_device("auto", 0, none).is_cpu());
}

TEST(Device, AnotherTextIsRefused) {
  EXPECT_THAT(refusal<ContractError>("gpu", 0, eight), HasSubstr("give cpu, cuda"));
}

TEST(Device, WhereThisMachineHasNoCudaItSaysWhy) {
  const CudaFound found = find_cuda();
  EXPECT_NE(found.devices == 0, found.missing.empty()) << found.missing;
}

TEST(Device, VisibleDevicesGiveAGpuItsName) {
  EXPECT_EQ(visible_device(3, std::nullopt), "3");
  EXPECT_EQ(visible_device(0, "4,5"), "4");
  EXPECT_EQ(visible_device(1, "4, GPU-12ab"), "GPU-12ab");
  EXPECT_EQ(visible_device(2, "4,5"), "2");
}

TEST(Device, TwoRanksOnOneGpuAreRefusedOnEveryRank) {
  const auto errors = testing::errors_on_ranks(3, [](const std::shared_ptr<Collective>& comm) {
    const auto index = static_cast<c10::DeviceIndex>(comm->rank() == 0 ? 1 : 0);
    require_own_devices({c10::DeviceType::CUDA, index}, *comm);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("two ranks train on one GPU"), HasSubstr("ranks 1 and 2")));
}

TEST(Device, RanksOnGpusOfTheirOwnOrOnCpusPass) {
  testing::on_ranks(4, [](const std::shared_ptr<Collective>& comm) {
    const auto index = static_cast<c10::DeviceIndex>(comm->rank());
    require_own_devices(comm->rank() < 2 ? c10::Device(c10::DeviceType::CUDA, index) : at::kCPU,
                        *comm);
  });
}

}  // namespace
}  // namespace zero
