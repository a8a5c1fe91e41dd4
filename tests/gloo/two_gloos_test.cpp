// LibTorch carries a Gloo of its own, another version, with exported symbols. Both work in one
// process, at the same time.
//
// LibTorch ships ProcessGroupGloo's header but not the Gloo headers that it includes. It only names
// their types behind pointers, so that Debian's serve; nothing of Debian's Gloo is linked, and
// every call below lands in LibTorch's.

#define USE_C10D_GLOO
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

constexpr int kRounds = 20;
constexpr std::int64_t kCount = 100'000;

std::string file_of(const char* symbol) {
  void* address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : "";
}

/// One rank of LibTorch's process group; its sums.
void use_torchs_gloo(int rank, const c10::intrusive_ptr<c10d::Store>& store, std::int64_t* right) {
  using Group = c10d::ProcessGroupGloo;
  auto options = c10::make_intrusive<Group::Options>(std::chrono::milliseconds(kPatience));
  options->devices.push_back(Group::createDeviceForHostname("127.0.0.1"));
  const auto group = c10::make_intrusive<Group>(store, rank, 2, options);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<at::Tensor> tensors = {at::full({kCount}, rank + 1.0)};
    group->allreduce(tensors, c10d::AllreduceOptions())->wait();
    *right += (tensors[0] == 3.0).sum().item<std::int64_t>();
  }
}

void use_our_gloo(Collective& comm) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> data(kCount, static_cast<float>(comm.rank() + 1));
    comm.all_reduce({data.data(), kCount, DType::kFloat32}, ReduceOp::kSum, "")->wait();
    EXPECT_EQ(std::count(data.begin(), data.end(), 3.0f), kCount);
  }
}

TEST(TwoGloos, WorkAtTheSameTimeInOneProcess) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::int64_t right[2] = {0, 0};
  std::thread torchs[2];
  for (int rank = 0; rank < 2; ++rank) {
    torchs[rank] = std::thread([&, rank] { use_torchs_gloo(rank, store, &right[rank]); });
  }
  kRanks.run_in_peace(2, use_our_gloo);
  for (auto& thread : torchs) thread.join();
  EXPECT_EQ(right[0], kRounds * kCount);
  EXPECT_EQ(right[1], kRounds * kCount);
}

TEST(TwoGloos, TheProgramSeesLibTorchsAndNotThePluginsGloo) {
  kRanks.run_in_peace(1, [](Collective&) {});  // loads the plug-in
  EXPECT_NE(dlopen("libgloo.so.0", RTLD_NOW | RTLD_NOLOAD), nullptr) << "the plug-in brought it";
  // gloo::Context::~Context(): both libraries have it.
  EXPECT_NE(file_of("_ZN4gloo7ContextD1Ev").find("libtorch_cpu"), std::string::npos);
}

TEST(TwoGloos, SurviveAFailureOfOurs) {
  // Exceptions of both are thrown and caught, each inside its own library.
  const auto errors = kRanks.run(2, kPatience, [](Collective& comm) {
    if (comm.rank() == 1) return;
    comm.barrier("alone")->wait();
  });
  EXPECT_NE(errors[0].find("rank 1 left"), std::string::npos) << errors[0];
  EXPECT_ANY_THROW(c10d::ProcessGroupGloo::createDeviceForHostname("no.such.host.invalid"));
}

}  // namespace
}  // namespace zero::gloo_test
