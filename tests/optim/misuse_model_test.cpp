#include <limits>

#include "tests/optim/misuse_support.h"

// Models and options that differ between ranks, or that nobody can train.

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What an Optimizer is built from.
struct Parts {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  AdamWOptions adamw = AdamWOptions(1e-2);
  Options options = tiny_options(2);
};

at::Tensor trainable(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return torch::ones(shape, torch::dtype(dtype).requires_grad(true));
}

Parts good_parts() {
  Parts parts;
  parts.parameters = {
      {"w", trainable({4, 3})}, {"b", trainable({3})}, {"frozen", torch::ones({2})}};
  parts.buffers = {{"mean", torch::zeros({3})}};
  return parts;
}

std::unique_ptr<Optimizer> build(const Parts& parts, const Comm& comm) {
  return std::make_unique<Optimizer>(parts.parameters, parts.buffers, parts.adamw, parts.options,
                                     comm);
}

void expect_it_trains(const Parts& parts, const Comm& comm) {
  const auto optimizer = build(parts, comm);
  at::Tensor loss = torch::zeros({});
  for (const auto& [name, tensor] : parts.parameters) {
    if (tensor.requires_grad()) loss = loss + tensor.to(torch::kFloat).sum();
  }
  optimizer->backward(loss);
  EXPECT_TRUE(optimizer->step().applied);
  optimizer->shutdown();
}

/// `difference` is made on rank `odd` only: every rank must throw in bounded time, naming
/// `expected`; then the same communicator must carry a correct optimizer.
void expect_disagreement(const std::string& what, const std::function<void(Parts&)>& difference,
                         const std::vector<std::string>& expected) {
  for (const int world_size : {2, 3}) {
    for (int odd = 0; odd < world_size; ++odd) {
      SCOPED_TRACE(what + " on rank " + std::to_string(odd) + " of " + std::to_string(world_size));
      on_every_rank(world_size, [&](const Comm& comm) {
        const Stopwatch watch;
        Parts parts = good_parts();
        if (comm->rank() == odd) difference(parts);
        const std::string error = thrown<ContractError>([&] { build(parts, comm); });
        for (const std::string& text : expected) EXPECT_THAT(error, HasSubstr(text));
        EXPECT_LT(watch.elapsed(), kPrompt);
        expect_it_trains(good_parts(), comm);
      });
    }
  }
}

TEST(Disagreement, InParametersThrowsOnEveryRankAndTheCommunicatorLivesOn) {
  expect_disagreement("shape",
                      [](Parts& p) {
                        p.parameters[0].tensor = trainable({3, 4});
                      },
                      {"rank ", "parameter w", "[4, 3]", "[3, 4]"});
  expect_disagreement("name", [](Parts& p) { p.parameters[1].name = "bias"; },
                      {"parameter b ", "parameter bias "});
  expect_disagreement("dtype", [](Parts& p) { p.parameters[1].tensor = trainable({3}, at::kHalf); },
                      {"parameter b float32", "parameter b float16"});
  expect_disagreement("requires_grad", [](Parts& p) { p.parameters[1].tensor = torch::ones({3}); },
                      {"parameter b float32", "frozen"});
  expect_disagreement("one more",
                      [](Parts& p) {
                        p.parameters.push_back({"extra", trainable({1})});
                      },
                      {"parameter extra"});
  expect_disagreement("one less", [](Parts& p) { p.parameters.pop_back(); }, {"parameter frozen"});
  expect_disagreement("order", [](Parts& p) { std::swap(p.parameters[0], p.parameters[1]); },
                      {"parameter w", "parameter b"});
  expect_disagreement("a tie",
                      [](Parts& p) {
                        p.parameters.push_back({"tied", p.parameters[0].tensor});
                      },
                      {"parameter tied"});
  expect_disagreement("a name in two lines", [](Parts& p) { p.parameters[1].name = "b\nad"; },
                      {"parameter b"});
}

TEST(Disagreement, InBuffersThrowsOnEveryRank) {
  expect_disagreement("shape", [](Parts& p) { p.buffers[0].tensor = torch::zeros({4}); },
                      {"buffer mean", "[3]", "[4]"});
  expect_disagreement("dtype",
                      [](Parts& p) { p.buffers[0].tensor = torch::zeros({3}, torch::kLong); },
                      {"buffer mean"});
  expect_disagreement("missing", [](Parts& p) { p.buffers.clear(); }, {"buffer mean"});
}

TEST(Disagreement, InOptionsThrowsOnEveryRankNamingTheOption) {
  using Difference = std::function<void(Parts&)>;
  const std::vector<std::pair<std::string, Difference>> differences = {
      {"stage", [](Parts& p) { p.options.stage(1); }},
      {"clip_norm", [](Parts& p) { p.options.clip_norm(7); }},
      {"wire", [](Parts& p) { p.options.wire(at::kBFloat16); }},
      {"unused", [](Parts& p) { p.options.unused(Unused::kError); }},
      {"bucket_bytes", [](Parts& p) { p.options.bucket_bytes(1 << 20); }},
      {"first_bucket_bytes", [](Parts& p) { p.options.first_bucket_bytes(50); }},
      {"shard_alignment", [](Parts& p) { p.options.shard_alignment(64); }},
      {"lr", [](Parts& p) { p.adamw.lr(0.5); }},
      {"beta1",
       [](Parts& p) {
         p.adamw.betas({0.5, 0.5});
       }},
      {"eps", [](Parts& p) { p.adamw.eps(1e-3); }},
      {"weight_decay", [](Parts& p) { p.adamw.weight_decay(0.5); }},
      {"growth_factor", [](Parts& p) { p.options.loss_scaler({.growth_factor = 4}); }},
      {"max_consecutive_skips",
       [](Parts& p) { p.options.loss_scaler({.max_consecutive_skips = 4}); }},
      {"group 1",
       [](Parts& p) {
         p.options.groups({{[](const auto&, const auto& t) { return t.dim() == 9; }, {}}});
       }},
      {"parameter b",
       [](Parts& p) {
         p.options.groups({{[](const auto&, const auto& t) { return t.dim() == 1; }, {}}});
       }},
  };
  for (const auto& [name, difference] : differences) expect_disagreement(name, difference, {name});
}

/// What one rank alone cannot build must not leave the others waiting.
TEST(Disagreement, WhatCannotBeBuiltOnOneRankThrowsOnEveryRank) {
  expect_disagreement("double",
                      [](Parts& p) { p.parameters[1].tensor = trainable({3}, at::kDouble); },
                      {"b is Double"});
  expect_disagreement("undefined", [](Parts& p) { p.parameters[1].tensor.reset(); }, {"undefined"});
  expect_disagreement("option", [](Parts& p) { p.options.clip_norm(-1); }, {"clip_norm", "-1"});
  expect_disagreement("empty", [](Parts& p) { p.parameters.clear(); }, {"no trainable parameter"});
}

/// The same on every rank, at world 1 and 2; no communicator is lost by it.
void expect_refused(const std::string& what, const std::function<void(Parts&)>& spoil,
                    const std::vector<std::string>& expected) {
  SCOPED_TRACE(what);
  for (const int world_size : {1, 2}) {
    on_every_rank(world_size, [&](const Comm& comm) {
      Parts parts = good_parts();
      spoil(parts);
      const std::string error = thrown<ContractError>([&] { build(parts, comm); });
      for (const std::string& text : expected) EXPECT_THAT(error, HasSubstr(text));
      expect_it_trains(good_parts(), comm);
    });
  }
}

TEST(Untrainable, TensorsAreRefusedByName) {
  const auto base = torch::ones({8});
  const auto view_of = [](const at::Tensor& tensor) {
    return tensor.detach().requires_grad_(true);
  };
  expect_refused("overlap",
                 [&](Parts& p) {
                   p.parameters = {{"left", view_of(base.slice(0, 0, 5))},
                                   {"other", trainable({2})},
                                   {"right", view_of(base.slice(0, 4, 8))}};
                 },
                 {"left", "right"});
  expect_refused("same memory",
                 [&](Parts& p) {
                   p.parameters = {{"one", view_of(base)}, {"two", view_of(base)}};
                 },
                 {"one", "two"});
  expect_refused("expanded",
                 [&](Parts& p) { p.parameters[0].tensor = view_of(torch::ones({1}).expand({5})); },
                 {"w", "itself"});
  expect_refused("self-overlapping",
                 [&](Parts& p) {
                   p.parameters[0].tensor = view_of(base.as_strided({3, 3}, {1, 1}));
                 },
                 {"w", "itself"});
  expect_refused("no leaf", [](Parts& p) { p.parameters[1].tensor = trainable({3}) * 2; },
                 {"no leaf", "b"});
  expect_refused("double", [](Parts& p) { p.parameters[1].tensor = trainable({3}, at::kDouble); },
                 {"b is Double"});
  expect_refused("complex",
                 [](Parts& p) { p.parameters[1].tensor = trainable({3}, at::kComplexFloat); },
                 {"b is ComplexFloat"});
  expect_refused("bool", [](Parts& p) { p.parameters[2].tensor = torch::ones({3}, torch::kBool); },
                 {"frozen is Bool"});
  expect_refused("sparse", [](Parts& p) { p.parameters[1].tensor = torch::eye(3).to_sparse(); },
                 {"not dense", "b"});
  expect_refused("undefined", [](Parts& p) { p.parameters[1].tensor.reset(); }, {"undefined", "b"});
  expect_refused("undefined buffer", [](Parts& p) { p.buffers[0].tensor.reset(); }, {"mean"});
  expect_refused("sparse buffer", [](Parts& p) { p.buffers[0].tensor = torch::eye(3).to_sparse(); },
                 {"mean"});
  expect_refused("no name", [](Parts& p) { p.parameters[1].name = ""; }, {"no name"});
  expect_refused("name twice", [](Parts& p) { p.parameters[1].name = "w"; }, {"same name", "w"});
}

TEST(Untrainable, ModelsWithoutATrainableParameterAreRefused) {
  expect_refused("empty", [](Parts& p) { p.parameters.clear(); }, {"no trainable parameter"});
  expect_refused("frozen",
                 [](Parts& p) {
                   p.parameters = {{"frozen", torch::ones({2})}};
                 },
                 {"no trainable parameter"});
}

TEST(Untrainable, ANullCommunicatorIsRefused) {
  EXPECT_THAT(thrown<ContractError>([] { build(good_parts(), nullptr); }),
              HasSubstr("zero::connect()"));
}

TEST(BadOptions, EveryFieldOutOfRangeIsNamedWithItsValue) {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto options = [](const std::string& name, const std::string& value,
                          const std::function<void(Parts&)>& set) {
    expect_refused(name + " = " + value, set, {name, value});
  };
  options("stage", "3", [](Parts& p) { p.options.stage(3); });
  options("stage", "-1", [](Parts& p) { p.options.stage(-1); });
  options("clip_norm", "-2", [](Parts& p) { p.options.clip_norm(-2); });
  options("clip_norm", "nan", [](Parts& p) { p.options.clip_norm(kNan); });
  options("clip_norm", "inf", [](Parts& p) { p.options.clip_norm(INFINITY); });
  options("wire", "Half", [](Parts& p) { p.options.wire(at::kHalf); });
  options("bucket_bytes", "0", [](Parts& p) { p.options.bucket_bytes(0); });
  options("first_bucket_bytes", "-5", [](Parts& p) { p.options.first_bucket_bytes(-5); });
  options("shard_alignment", "0", [](Parts& p) { p.options.shard_alignment(0); });
  options("lr", "-1", [](Parts& p) { p.adamw.lr(-1); });
  options("lr", "nan", [](Parts& p) { p.adamw.lr(kNan); });
  options("beta", "1", [](Parts& p) { p.adamw.betas({1.0, 0.9}); });
  options("beta", "-0.5", [](Parts& p) { p.adamw.betas({0.9, -0.5}); });
  options("beta", "0.99999999999", [](Parts& p) { p.adamw.betas({0.99999999999, 0.9}); });
  options("eps", "-1", [](Parts& p) { p.adamw.eps(-1); });
  options("weight_decay", "-1", [](Parts& p) { p.adamw.weight_decay(-1); });
  options("group 1: lr", "-7", [](Parts& p) {
    p.options.groups({{[](const auto&, const auto&) { return true; }, AdamWOptions(-7)}});
  });
  options("predicate", "1", [](Parts& p) { p.options.groups({{nullptr, {}}}); });
}

/// Also where no parameter is float16, so that the mistake shows before the dtype is changed.
TEST(BadOptions, EveryFieldOfTheLossScalerIsCheckedWhateverTheDtype) {
  const auto options = [](const std::string& name, const std::string& value,
                          const LossScalerOptions& scaler) {
    expect_refused(name + " = " + value, [&](Parts& p) { p.options.loss_scaler(scaler); },
                   {name, value});
  };
  options("initial_scale", "-4", {.initial_scale = -4});
  options("initial_scale", "0.5", {.initial_scale = 0.5});
  options("growth_factor", "0.5", {.growth_factor = 0.5});
  options("backoff_factor", "2", {.backoff_factor = 2});
  options("growth_interval", "0", {.growth_interval = 0});
  options("hysteresis", "0", {.hysteresis = 0});
  options("min_scale", "0", {.min_scale = 0});
  options("max_consecutive_skips", "-1", {.max_consecutive_skips = -1});
}

TEST(Trainable, OddModelsTrain) {
  const auto trains = [](const std::string& what, const std::function<void(Parts&)>& change) {
    SCOPED_TRACE(what);
    for (const int world_size : {1, 2}) {
      on_every_rank(world_size, [&](const Comm& comm) {
        Parts parts = good_parts();
        change(parts);
        expect_it_trains(parts, comm);
      });
    }
  };
  trains("tied", [](Parts& p) { p.parameters.push_back({"tied", p.parameters[0].tensor}); });
  trains("zero-size only", [](Parts& p) { p.parameters = {{"nothing", trainable({0, 3})}}; });
  trains("integer frozen", [](Parts& p) { p.parameters[2].tensor = torch::arange(3); });
  trains("expanded frozen",
         [](Parts& p) { p.parameters[2].tensor = torch::ones({1}).expand({5}); });
  trains("expanded buffer", [](Parts& p) {
    p.buffers[0].tensor = torch::ones({1, 2}).expand({3, 2});
  });
  trains("double and bool buffers", [](Parts& p) {
    p.buffers = {{"d", torch::ones({2}, torch::kDouble)},
                 {"b", torch::ones({2}, torch::kBool)},
                 {"s", torch::tensor(1)}};
  });
}

TEST(Start, EveryRankGetsRank0sParametersAndBuffersAlsoExpandedOnes) {
  on_every_rank(2, [](const Comm& comm) {
    const float mine = comm->rank() == 0 ? 5 : -1;
    Parts parts = good_parts();
    parts.buffers = {{"expanded", torch::full({1, 2}, mine).expand({3, 2})},
                     {"transposed", torch::full({2, 3}, mine).t()},
                     {"scalar", torch::tensor(mine)}};
    for (auto& parameter : parts.parameters) {
      const torch::NoGradGuard no_grad;
      parameter.tensor.fill_(mine);
    }
    const auto optimizer = build(parts, comm);
    for (const auto& list : {parts.parameters, parts.buffers}) {
      for (const auto& [name, tensor] : list) EXPECT_TRUE(tensor.eq(5).all().item<bool>()) << name;
    }
    optimizer->shutdown();
  });
}

TEST(Start, FrozenParametersAndGroupsWithoutAnyStayAsTheyAre) {
  on_every_rank(2, [](const Comm& comm) {
    Parts parts = good_parts();
    parts.options.groups(
        {{[](const std::string& name, const auto&) { return name == "frozen"; }, AdamWOptions(0.5)},
         {[](const auto&, const auto&) { return false; }, AdamWOptions(0.25)}});
    const auto optimizer = build(parts, comm);
    ASSERT_EQ(optimizer->param_groups().size(), 3U);
    EXPECT_EQ(optimizer->param_groups()[2].options().get_lr(), 0.25);
    optimizer->backward(parts.parameters[0].tensor.sum() + parts.parameters[2].tensor.sum());
    EXPECT_TRUE(optimizer->step().applied);
    EXPECT_TRUE(torch::equal(parts.parameters[2].tensor, torch::ones({2})));
    EXPECT_EQ(parts.parameters[2].tensor._version(), 0);
    optimizer->shutdown();
  });
}

/// Heaps filled differently put tensors at other addresses; nothing may follow their order.
TEST(HeapLayout, DoesNotReachLayoutOrBits) {
  struct Result {
    std::uint64_t fingerprint;
    Snapshot parameters;
  };
  std::vector<Result> results;
  std::vector<torch::Tensor> junk;
  std::uint64_t random = 12345;
  const auto next = [&](std::uint64_t below) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return (random >> 33) % below;
  };
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 40; ++i)
      junk.push_back(torch::empty({static_cast<std::int64_t>(1 + next(600))}));
    for (std::size_t i = 0; i < junk.size() / 2; ++i) junk[next(junk.size())].reset();
    std::erase_if(junk, [](const torch::Tensor& tensor) { return !tensor.defined(); });
    on_every_rank(1, [&](const Comm& comm) {
      const torch::Dtype dtype = torch::kFloat;
      Tiny model(dtype);
      model->register_parameter("half", numbers({5}, 8).to(torch::kHalf));
      Optimizer optimizer(*model, AdamWOptions(1e-2), tiny_options(round % 3), comm);
      optimizer.backward(model->loss(tiny_input(0, 0)) +
                         model->named_parameters()["half"].to(torch::kFloat).square().sum());
      EXPECT_TRUE(optimizer.step().applied);
      results.push_back({optimizer.layout().fingerprint(), snapshot(model)});
      optimizer.shutdown();
    });
    ASSERT_EQ(results.size(), static_cast<std::size_t>(round + 1));
    EXPECT_EQ(results.front().fingerprint, results.back().fingerprint);
    expect_same(results.front().parameters, results.back().parameters);
  }
}

}  // namespace
}  // namespace zero::testing
