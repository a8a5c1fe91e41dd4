/// recompute() is the plain call, but for what is kept in between.

#include "libzero/train/recompute.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/train/autocast.h"
#include "tests/thrown.h"
#include "tests/train/recompute_support.h"

namespace zero {
namespace {

using testing::equal_bits;
using testing::gradients_of;
using ::testing::HasSubstr;
using testing::RecomputedBlock;
using testing::Tensors;
using testing::thrown;
using torch::Tensor;

constexpr std::int64_t kWidth = 8;

struct Outcome {
  Tensors outputs;
  Tensors gradients;
  Tensor drawn_after;
};

/// `forward` of three blocks and an input; two micro-batches add up. The same start each time.
Outcome train(const std::function<Tensors(std::vector<RecomputedBlock>&, const Tensor&)>& forward) {
  torch::manual_seed(3);
  std::vector<RecomputedBlock> blocks;
  for (int i = 0; i < 3; ++i) blocks.emplace_back(kWidth);
  Tensor input = torch::randn({2, 5, kWidth}, torch::requires_grad());
  Tensors leaves = {input};
  for (auto& block : blocks) {
    for (const Tensor& parameter : block->parameters()) leaves.push_back(parameter);
  }
  Outcome outcome;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    Tensor loss = torch::zeros({});
    for (const Tensor& output : forward(blocks, input)) {
      outcome.outputs.push_back(output.detach().clone());
      loss = loss + (output.to(torch::kFloat) * output.to(torch::kFloat)).mean();
    }
    torch::rand({7});  // draws in between are not repeated
    loss.backward();
  }
  outcome.gradients = gradients_of(leaves);
  outcome.drawn_after = torch::rand({4});
  return outcome;
}

void expect_same(const Outcome& plain, const Outcome& recomputed) {
  EXPECT_TRUE(equal_bits(plain.outputs, recomputed.outputs));
  EXPECT_TRUE(equal_bits(plain.gradients, recomputed.gradients));
  EXPECT_TRUE(equal_bits(plain.drawn_after, recomputed.drawn_after)) << "the outer random stream";
  for (const Tensor& gradient : plain.gradients) EXPECT_TRUE(gradient.defined());
}

Tensors plain_stack(std::vector<RecomputedBlock>& blocks, Tensor x) {
  for (auto& block : blocks) x = block(x);
  return {x};
}

TEST(Recompute, GradientsHaveTheBitsOfThePlainCall) {
  const Outcome plain = train(plain_stack);
  for (const bool early_stop : {true, false}) {
    expect_same(plain, train([&](auto& blocks, Tensor x) -> Tensors {
                  for (auto& block : blocks) x = recompute({.early_stop = early_stop}, block, x);
                  return {x};
                }));
  }
}

TEST(Recompute, WithoutTheRandomStateDropoutDiffers) {
  const Outcome plain = train(plain_stack);
  const Outcome careless = train([](auto& blocks, Tensor x) -> Tensors {
    for (auto& block : blocks) x = recompute({.preserve_random = false}, block, x);
    return {x};
  });
  EXPECT_TRUE(equal_bits(plain.outputs[0], careless.outputs[0]));
  EXPECT_FALSE(equal_bits(plain.gradients, careless.gradients));
}

TEST(Recompute, AFunctionThatSharesAWeightWithItselfAndOthers) {
  const auto shared = [](auto call) {
    return [call](auto& blocks, const Tensor& x) -> Tensors {
      return {call(blocks[0], call(blocks[1], call(blocks[0], call(blocks[2], x))))};
    };
  };
  expect_same(train(shared([](auto& block, const Tensor& x) { return block(x); })),
              train(shared([](auto& block, const Tensor& x) { return recompute(block, x); })));
}

TEST(Recompute, CallsLieWithinEachOther) {
  const auto nested = [](auto& blocks, const Tensor& x) -> Tensors {
    return {recompute(
        [&](const Tensor& a) {
          const Tensor b =
              recompute([&](const Tensor& c) { return recompute(blocks[1], blocks[0](c)); }, a);
          return recompute(blocks[2], b).tanh();
        },
        x)};
  };
  const auto plain = [](auto& blocks, const Tensor& x) -> Tensors {
    return {plain_stack(blocks, x)[0].tanh()};
  };
  expect_same(train(plain), train(nested));
}

TEST(Recompute, RunsTheFunctionTwiceForEachBackwardAndNestedOnesThreeTimes) {
  RecomputedBlock outer(kWidth), inner(kWidth);
  const Tensor x = torch::randn({2, 3, kWidth});
  const auto both = [&](const Tensor& a) { return recompute(inner, outer(a)).sin(); };
  const Tensor loss = recompute(both, x).sum();
  EXPECT_EQ(outer->calls, 1);
  EXPECT_EQ(inner->calls, 1);
  loss.backward();
  EXPECT_EQ(outer->calls, 2);
  EXPECT_EQ(inner->calls, 3);
}

TEST(Recompute, SeveralResultsAndInputsWithoutGradients) {
  const auto twins = [](auto& block, const Tensor& x, const Tensor& mask, const Tensor& nothing) {
    EXPECT_FALSE(nothing.defined());
    const Tensor y = block(x).masked_fill(mask, 0.0);
    return std::tuple<Tensor, Tensor, int>(y.exp(), y.sin(), 5);
  };
  const Tensor mask = torch::rand({2, 5, kWidth}) > 0.5;
  ASSERT_FALSE(mask.requires_grad());
  const auto run = [&](bool recomputed) {
    return train([&](auto& blocks, const Tensor& x) -> Tensors {
      auto& block = blocks[0];
      const auto function = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
        return twins(block, a, b, c);
      };
      const auto [first, second, number] =
          recomputed ? recompute(function, x, mask, Tensor()) : function(x, mask, Tensor());
      EXPECT_EQ(number, 5);
      return {first, blocks[1](second), blocks[2](x)};
    });
  };
  expect_same(run(false), run(true));
}

TEST(Recompute, NeedsNoInputAtAll) {
  const Tensor weight = torch::full({3}, 2.0, torch::requires_grad());
  recompute([&] { return (weight * weight * weight).sum(); }).backward();
  EXPECT_TRUE(torch::equal(weight.grad(), torch::full({3}, 12.0)));
}

TEST(Recompute, OnlyWhatABackwardNeedsOfSeveralResults) {
  int calls = 0;
  const Tensor x = torch::full({2}, 3.0, torch::requires_grad());
  const auto [cube, unused] = recompute(
      [&](const Tensor& a) {
        ++calls;
        return std::pair(a * a * a, (a.exp() + 1).log());
      },
      x);
  const Tensor gradient = torch::autograd::grad({cube.sum()}, {x})[0];
  EXPECT_TRUE(torch::equal(gradient, torch::full({2}, 27.0)));
  EXPECT_EQ(calls, 2);
}

TEST(Recompute, BackwardMayRunAgain) {
  int calls = 0;
  const Tensor x = torch::full({2}, 3.0, torch::requires_grad());
  const Tensor loss = recompute(
      [&](const Tensor& a) {
        ++calls;
        return (a * a).exp().sum();
      },
      x);
  loss.backward({}, /*retain_graph=*/true);
  const Tensor once = x.grad().clone();
  loss.backward();
  EXPECT_TRUE(torch::equal(x.grad(), once + once));
  EXPECT_EQ(calls, 3);
}

TEST(Recompute, GradientsOfGradients) {
  const auto penalty = [](bool recomputed) {
    const Tensor x = torch::linspace(0, 1, 5).requires_grad_();
    const auto cube = [](const Tensor& a) { return (a * a * a).sin().sum(); };
    const Tensor y = recomputed ? recompute(cube, x) : cube(x);
    const Tensor gradient = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    (gradient * gradient).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(equal_bits(penalty(false), penalty(true)));
}

TEST(Recompute, ABackwardWithinTheFunction) {
  const auto run = [](bool recomputed, bool early_stop = true) {
    const Tensor x = torch::linspace(0, 1, 5).requires_grad_();
    const auto penalty = [](const Tensor& a) {
      const Tensor y = (a * a * a).sin();
      return torch::autograd::grad({y.sum()}, {a}, {}, true, /*create_graph=*/true)[0] * y;
    };
    (recomputed ? recompute({.early_stop = early_stop}, penalty, x) : penalty(x)).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(equal_bits(run(false), run(true)));
  EXPECT_TRUE(equal_bits(run(false), run(true, false)));
}

TEST(Recompute, AutocastIsWhatItWasInTheFirstRun) {
  const auto run = [](bool recomputed) {
    return train([&](auto& blocks, Tensor x) -> Tensors {
      const Autocast autocast(torch::kCPU, torch::kBFloat16);
      for (auto& block : blocks) x = recomputed ? recompute(block, x) : block(x);
      const Autocast off = Autocast::off(torch::kCPU);
      return {recomputed ? recompute(blocks[0], x.to(torch::kFloat))
                         : blocks[0](x.to(torch::kFloat))};
    });
  };
  const AutocastState before = autocast_state(torch::kCPU);
  expect_same(run(false), run(true));
  EXPECT_EQ(autocast_state(torch::kCPU), before);
}

TEST(Recompute, AutocastOfEveryDeviceIsWhatItWasInTheFirstRun) {
  std::vector<AutocastState> seen;
  const Tensor x = torch::ones({2}, torch::requires_grad());
  Tensor y;
  {
    const Autocast autocast(torch::kCUDA, torch::kHalf);
    y = recompute(
        [&](const Tensor& in) {
          seen.push_back(autocast_state(torch::kCUDA));
          return in.sin();
        },
        x);
  }
  y.sum().backward();
  EXPECT_EQ(seen, std::vector<AutocastState>(2, AutocastState{true, torch::kHalf}));
}

TEST(Recompute, WithoutGradientsItIsAPlainCall) {
  RecomputedBlock block(kWidth);
  const torch::NoGradGuard no_grad;
  const Tensor y = recompute(block, torch::randn({2, 3, kWidth}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(block->calls, 1);
}

TEST(Recompute, TheSecondRunLeavesTheFunctionEarlyUnlessTold) {
  for (const bool early_stop : {true, false}) {
    int ends = 0;
    const Tensor x = torch::ones({2}, torch::requires_grad());
    recompute(
        {.early_stop = early_stop},
        [&](const Tensor& a) {
          const Tensor y = a.exp() * 2;
          ++ends;
          return y;
        },
        x)
        .sum()
        .backward();
    EXPECT_EQ(ends, early_stop ? 1 : 2);
  }
}

TEST(Recompute, BackwardMayRunOnAnotherThread) {
  const Tensor x = torch::ones({2}, torch::requires_grad());
  const Tensor loss = recompute([](const Tensor& a) { return (a * a).exp().sum(); }, x);
  std::thread([&] { loss.backward(); }).join();
  EXPECT_NEAR(x.grad()[0].item<double>(), 2 * std::exp(1.0), 1e-5);
}

TEST(Recompute, AnotherThreadKeepsItsOwn) {
  const Tensor x = torch::ones({2}, torch::requires_grad());
  Tensor elsewhere;
  int calls = 0;
  recompute(
      [&](const Tensor& a) {
        ++calls;
        if (calls == 1) std::thread([&] { elsewhere = (x * x).exp().sum(); }).join();
        return a * a;
      },
      x);
  elsewhere.backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_EQ(calls, 1);
}

TEST(Recompute, AnInputThatWasWrittenInBetweenIsNoticed) {
  const Tensor x = torch::ones({2}, torch::requires_grad());
  const Tensor input = x * 1;
  const Tensor loss = recompute([](const Tensor& a) { return (a * a).sum(); }, input);
  input.mul_(2);
  EXPECT_THAT(thrown<c10::Error>([&] { loss.backward(); }), HasSubstr("inplace operation"));
}

TEST(Recompute, AFunctionThatDoesSomethingElseTheSecondTimeIsNamed) {
  const auto backward_of = [](const std::function<Tensor(const Tensor&, bool)>& function) {
    const Tensor x = torch::ones({2}, torch::requires_grad());
    bool first = true;
    const RecomputeOptions options{.early_stop = false};
    recompute(
        options, [&](const Tensor& a) { return function(a, std::exchange(first, false)); }, x)
        .sum()
        .backward();
  };
  const auto fewer = [](const Tensor& a, bool first) { return first ? a.exp().exp() : a.exp(); };
  const auto more = [](const Tensor& a, bool first) { return first ? a.exp() : a.exp().exp(); };
  const auto other = [](const Tensor& a, bool first) {
    return (first ? a : a.to(torch::kDouble)).exp();
  };
  EXPECT_THAT(thrown<ContractError>([&] { backward_of(fewer); }),
              HasSubstr("the same both times: 1 instead of 2"));
  EXPECT_THAT(thrown<ContractError>([&] { backward_of(more); }),
              HasSubstr("the same both times: 2 instead of 1"));
  EXPECT_THAT(thrown<ContractError>([&] { backward_of(other); }),
              HasSubstr("number 0 is Double[2] on cpu, was Float[2] on cpu"));
}

TEST(Recompute, WhatTheFunctionThrowsComesOutAndLeavesNothingBehind) {
  RecomputedBlock block(kWidth);
  const Tensor x = torch::randn({2, 3, kWidth});
  int runs = 0;
  const auto throws_in = [&](int run) {
    runs = 0;
    return [&runs, &block, run](const Tensor& a) {
      const Tensor y = block(a);
      if (++runs == run) throw std::runtime_error("disk full");
      return y.sin();
    };
  };
  const AutocastState autocast = autocast_state(torch::kCPU);
  EXPECT_EQ(thrown<std::runtime_error>([&] { recompute(throws_in(1), x); }), "disk full");
  const Tensor kept = (x * block->mix[0]).exp().sum();  // outside: kept as ever
  kept.backward();

  const Tensor loss = recompute(throws_in(2), x).sum();
  EXPECT_EQ(thrown<std::runtime_error>([&] { loss.backward({}, /*retain_graph=*/true); }),
            "disk full");
  EXPECT_EQ(autocast_state(torch::kCPU), autocast);
  block->zero_grad();
  loss.backward();  // the third time it does not throw
  EXPECT_TRUE(block->mix.grad().defined());
}

}  // namespace
}  // namespace zero
