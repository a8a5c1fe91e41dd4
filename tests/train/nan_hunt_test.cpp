/// A search names where the first result that is not finite came from.

#include "libzero/train/nan_hunt.h"

#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/train/autocast.h"
#include "libzero/train/recompute.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::thrown;
using torch::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(4, 4));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    second = register_module("second", torch::nn::Linear(4, 4));
  }
  Tensor forward(const Tensor& x) { return second(between(norm(first(x)))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  std::function<Tensor(const Tensor&)> between = [](const Tensor& x) { return torch::gelu(x); };
};
TORCH_MODULE(Net);

void set(const Tensor& parameter, float value) {
  const torch::NoGradGuard no_grad;
  parameter.flatten()[1].fill_(value);
}

TEST(NanHunt, AHealthyStepHasNothing) {
  Net net;
  const NanHunt hunt(*net);
  net(torch::ones({2, 4})).pow(2).mean().backward();
  EXPECT_FALSE(hunt.found().has_value());
  hunt.check();
}

TEST(NanHunt, NamesAModuleThatOverflows) {
  Net net;
  net->between = [](const Tensor& x) { return x.abs(); };
  set(net->second->weight, 3e38f);
  set(net->norm->weight, 1e10f);
  const NanHunt hunt(*net);
  net(torch::ones({2, 4}));
  ASSERT_TRUE(hunt.found().has_value());
  EXPECT_EQ(hunt.found()->module, "second");
  EXPECT_TRUE(hunt.found()->is_of_module);
  EXPECT_FALSE(hunt.found()->in_backward);
  EXPECT_EQ(hunt.found()->cause, "");
  EXPECT_THAT(thrown<Error>([&] { hunt.check(); }),
              ::testing::AllOf(HasSubstr("of module second"), HasSubstr("its inputs were finite")));
}

TEST(NanHunt, NamesAParameterThatWasNotFiniteBefore) {
  Net net;
  set(net->first->bias, kInf);
  const NanHunt hunt(*net);
  net(torch::ones({2, 4}));
  EXPECT_EQ(hunt.found()->module, "first");
  EXPECT_EQ(hunt.found()->cause, "parameter first.bias");
}

TEST(NanHunt, NamesTheModuleBeforeAnOperationOfNone) {
  Net net;
  net->between = [](const Tensor& x) { return (x - 100).log(); };
  NanHunt hunt(*net);
  net(torch::ones({2, 4}));
  EXPECT_EQ(hunt.found()->module, "norm");
  EXPECT_FALSE(hunt.found()->is_of_module);
  EXPECT_EQ(hunt.found()->operation, "aten::log");
  EXPECT_THAT(hunt.found()->text(), HasSubstr("aten::log, after module norm"));
  hunt.forget();
  EXPECT_FALSE(hunt.found().has_value());
  net->between = [](const Tensor& x) { return x.sqrt_(); };  // in place
  net(torch::ones({2, 4}));
  EXPECT_EQ(hunt.found()->operation, "aten::sqrt_");
}

TEST(NanHunt, TheDataMayBeToBlame) {
  Net net;
  Tensor x = torch::ones({2, 4});
  x[1][2] = kInf;
  const NanHunt hunt(*net);
  net(x);
  EXPECT_EQ(hunt.found()->module, "first");
  EXPECT_EQ(hunt.found()->cause, "an input");
}

TEST(NanHunt, LooksAtBackwardToo) {
  Net net;
  net->between = [](const Tensor& x) { return (x - x.detach()).abs().sqrt(); };  // slope 1/0 at 0
  const NanHunt hunt(*net);
  const Tensor loss = net(torch::ones({2, 4})).sum();
  EXPECT_FALSE(hunt.found().has_value());
  loss.backward();
  ASSERT_TRUE(hunt.found().has_value());
  EXPECT_TRUE(hunt.found()->in_backward);
  EXPECT_EQ(hunt.found()->module, "second") << "backward has come so far";
  EXPECT_THAT(hunt.found()->text(), HasSubstr("in backward"));
}

TEST(NanHunt, AttentionMasksAreNoFinding) {
  Net net;
  const Tensor mask = torch::ones({2, 2}, torch::kBool).triu(1);
  const auto attend = [&] {
    const Tensor scores = torch::matmul(torch::ones({2, 4}), torch::ones({4, 2}));
    return torch::matmul(scores.masked_fill(mask, -kInf).softmax(-1), torch::ones({2, 4}));
  };
  {
    const NanHunt hunt(*net);
    net(attend());
    EXPECT_FALSE(hunt.found().has_value()) << hunt.found()->text();
  }
  const NanHunt strict(*net, /*negative_infinity=*/true);
  net(attend());
  EXPECT_EQ(strict.found()->operation, "aten::masked_fill");
}

TEST(NanHunt, AViewIsNoFinding) {
  Net net;
  const Tensor infinite = torch::full({4, 4}, kInf);
  const NanHunt hunt(*net);
  infinite.narrow(0, 0, 2).t().view({2, 2, 2}).select(0, 1).detach();
  EXPECT_FALSE(hunt.found().has_value()) << hunt.found()->text();
  infinite + 1;
  EXPECT_TRUE(hunt.found().has_value());
}

/// While it lives, LibTorch's memory comes full of infinities, as memory that was used before may.
class InfiniteMemory final : public c10::Allocator {
 public:
  InfiniteMemory() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this); }
  InfiniteMemory(const InfiniteMemory&) = delete;
  InfiniteMemory& operator=(const InfiniteMemory&) = delete;
  ~InfiniteMemory() override { c10::SetCPUAllocator(inner_); }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = inner_->allocate(bytes);
    std::fill_n(static_cast<float*>(memory.get()), bytes / sizeof(float), kInf);
    return memory;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* const inner_;
};

TEST(NanHunt, MemoryThatWasNotWrittenIsNoFinding) {
  Net net;
  const Tensor like = torch::ones({3, 5});
  const InfiniteMemory memory;
  const NanHunt hunt(*net);
  const Tensor resized = torch::empty({1});
  resized.resize_({100});
  const std::vector<Tensor> unwritten = {torch::empty({100}), torch::empty_like(like),
                                         torch::empty_strided({3, 5}, {1, 3}), like.new_empty({7}),
                                         resized};
  EXPECT_FALSE(hunt.found().has_value()) << hunt.found()->text();
  for (const Tensor& tensor : unwritten) {
    EXPECT_TRUE(torch::isinf(tensor).any().item<bool>()) << "nothing was put to the test";
  }
}

TEST(NanHunt, WorksUnderAutocastAndRecompute) {
  Net net;
  net->between = [](const Tensor& x) { return x.abs(); };
  set(net->second->weight, 6e4f);
  set(net->norm->weight, 6e4f);
  const NanHunt hunt(*net);
  {
    const Autocast autocast(torch::kCPU, torch::kHalf);
    recompute([&](const Tensor& x) { return net(x); }, torch::ones({2, 4}));
  }
  ASSERT_TRUE(hunt.found().has_value());
  EXPECT_EQ(hunt.found()->module, "second");
}

TEST(NanHunt, EndsWithItsScopeAndMindsItsOwnThread) {
  Net net;
  {
    const NanHunt hunt(*net);
    EXPECT_THAT(thrown<ContractError>([&] { NanHunt second(*net); }), HasSubstr("one lives"));
    std::thread([&] { torch::full({2}, kInf) + 1; }).join();
    EXPECT_FALSE(hunt.found().has_value());
  }
  torch::full({2}, kInf) + 1;
  const NanHunt next(*net);
  EXPECT_FALSE(next.found().has_value());
}

}  // namespace
}  // namespace zero
