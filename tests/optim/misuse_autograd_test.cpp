#include "tests/optim/misuse_support.h"

// Gradients that come from the wrong place, twice, in a strange shape or not at all, and parameters
// that change under the optimizer's hands.

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = torch::autograd::variable_list;
using Context = torch::autograd::AutogradContext;

TEST(Arrival, LossBackwardIsRefusedByNameAndLeavesNoTrace) {
  for (const bool create_graph : {false, true}) {
    expect_no_trace(2, [&](Trainee& trainee) {
      const auto direct = [&] {
        trainee.model->loss(tiny_input(7, 0)).backward({}, std::nullopt, create_graph);
      };
      EXPECT_THAT(thrown<ContractError>(direct),
                  AllOf(HasSubstr("optimizer.backward(loss)"), HasSubstr("parameter ")));
      EXPECT_THAT(thrown<ContractError>(direct), HasSubstr("optimizer.backward(loss)"));
    });
  }
}

TEST(Arrival, AGradientPenaltyThroughCreateGraphWorks) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    const auto gain = trainee.model->gain;  // d/dg of g^2 + (d g^3 / dg)^2 = 2 g + 36 g^3
    const auto slope = torch::autograd::grad({gain.pow(3)}, {gain}, {}, /*retain_graph=*/true,
                                             /*create_graph=*/true)[0];
    trainee.optimizer->backward(gain.square() + slope.square());
    trainee.optimizer->step();
    const float g = 0.75f;
    EXPECT_FLOAT_EQ(trainee.optimizer->gather("gain", StateKind::kGradient).item<float>(),
                    2 * g + 36 * g * g * g);
    trainee.optimizer->shutdown();
  });
}

/// Runs its loss again in backward, as re-entrant checkpointing does: weights get their gradients
/// inside.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  using Body = std::function<torch::Tensor(const torch::Tensor&)>;
  static torch::Tensor forward(Context* context, const torch::Tensor& x,
                               const std::shared_ptr<Body>& body) {
    context->save_for_backward({x});
    context->saved_data["body"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(body));
    const torch::NoGradGuard no_grad;
    return (*body)(x);
  }
  static Variables backward(Context* context, const Variables& gradients) {
    const auto holder =
        c10::static_intrusive_pointer_cast<Holder>(context->saved_data["body"].toCapsule());
    const torch::AutoGradMode enable(true);
    const auto x = context->get_saved_variables()[0].detach().requires_grad_(true);
    torch::autograd::backward({(*holder->body)(x)}, {gradients[0]});
    return {x.grad(), torch::Tensor()};
  }
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<Body> b) : body(std::move(b)) {}
    std::shared_ptr<Body> body;
  };
};

/// `first` and `bias` are used twice: in the checkpointed part and outside it, or, plain, twice in
/// one graph.
torch::Tensor twice_used_loss(Trainee& trainee, std::int64_t step, std::int64_t micro,
                              bool checkpointed) {
  auto& model = *trainee.model;
  const auto body = std::make_shared<Checkpoint::Body>([&model](const torch::Tensor& x) {
    return torch::tanh(torch::matmul(x, model.first) + model.bias);
  });
  const auto x = tiny_input(step, micro).requires_grad_(true);
  const auto inner = checkpointed ? Checkpoint::apply(x, body) : (*body)(x);
  const auto again =
      torch::tanh(torch::matmul(inner.matmul(model.first.t()), model.first) + model.bias);
  return model.loss_of(again);
}

TEST(Arrival, ASecondGradientInOneBackwardIsRefusedByNameAndLeavesNoTrace) {
  expect_no_trace(2, [](Trainee& trainee) {
    const auto backward = [&] {
      trainee.optimizer->backward(twice_used_loss(trainee, 7, 0, true));
    };
    EXPECT_THAT(thrown<ContractError>(backward),
                AllOf(HasSubstr("defer_reduction(true)"), HasSubstr("parameter ")));
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                HasSubstr("a backward call threw"));
  });
}

Snapshot train_twice_used(int world_size, int stage, bool defer, bool checkpointed) {
  Snapshot result;
  on_every_rank(world_size, [&](const Comm& comm) {
    Options options = tiny_options(stage);
    options.defer_reduction(defer);
    Trainee trainee(comm, options);
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t i = comm->rank(); i < 4; i += comm->size()) {
        trainee.optimizer->backward(twice_used_loss(trainee, step, i, checkpointed));
      }
      EXPECT_TRUE(trainee.optimizer->step().applied);
    }
    if (comm->rank() == 0) result = snapshot(trainee.model);
    trainee.optimizer->shutdown();
  });
  return result;
}

TEST(Arrival, DeferredReductionTakesASecondGradientAndGivesThePlainRunsBits) {
  const Snapshot plain = train_twice_used(1, 0, false, false);
  for (const int stage : {0, 1, 2}) {
    for (const int world_size : {1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size));
      expect_same(plain, train_twice_used(world_size, stage, true, true));
      expect_same(plain, train_twice_used(world_size, stage, true, false));
      expect_same(plain, train_twice_used(world_size, stage, false, false));
    }
  }
}

TEST(Arrival, AWeightUsedSeveralTimesHasOneGradient) {
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      const auto gain = trainee.model->gain;
      trainee.optimizer->backward(gain * 2 + gain * gain + torch::stack({gain, gain, gain}).sum());
      trainee.optimizer->step();
      EXPECT_EQ(trainee.optimizer->gather("gain", StateKind::kGradient).item<float>(),
                2 + 2 * 0.75f + 3);
      trainee.optimizer->shutdown();
    });
  }
}

/// Passes its input on and gives it no gradient at all.
struct Forgetful : torch::autograd::Function<Forgetful> {
  static torch::Tensor forward(Context*, const torch::Tensor& x) { return x.clone(); }
  static Variables backward(Context*, const Variables&) { return {torch::Tensor()}; }
};

TEST(Unused, InErrorModeEveryRankThrowsNamingParameterAndRankThenRecovers) {
  // `nothing`, of no element, must be used too.
  const auto use_all = [](Trainee& trainee, std::int64_t micro) {
    return trainee.model->loss(tiny_input(7, micro)) + trainee.model->nothing.sum();
  };
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage).unused(Unused::kError));
      const bool one = comm->rank() == 1;
      const Snapshot before = snapshot(trainee.model);
      const auto step = [&] { trainee.optimizer->step(); };
      trainee.optimizer->backward(use_all(trainee, 0));
      trainee.optimizer->backward(one ? trainee.model->bias.sum() * 1.0 : use_all(trainee, 1));
      EXPECT_THAT(thrown<ContractError>(step),
                  AllOf(HasSubstr("parameter first"), HasSubstr("rank 1")));
      expect_same(before, snapshot(trainee.model));
      trainee.optimizer->backward(use_all(trainee, 0));
      EXPECT_TRUE(trainee.optimizer->step().applied);
      trainee.optimizer->shutdown();
    });
  }
}

TEST(Unused, ANodeThatAutogradRanWithNothingIsUnusedAtEveryStage) {
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    on_every_rank(2, [&](const Comm& comm) {
      const auto a = torch::ones({2}, torch::requires_grad());
      const auto b = torch::ones({2}, torch::requires_grad());
      Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1),
                          tiny_options(stage).unused(Unused::kError), comm);
      optimizer.backward((comm->rank() == 0 ? Forgetful::apply(b) : b * 1).sum() + a.sum());
      EXPECT_THAT(thrown<ContractError>([&] { optimizer.step(); }),
                  AllOf(HasSubstr("parameter b"), HasSubstr("rank 0")));
      optimizer.backward(b.sum() + a.sum());
      EXPECT_TRUE(optimizer.step().applied);
      optimizer.shutdown();
    });
  }
}

TEST(Unused, InZeroModeRanksMayUseDifferentParameters) {
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      const auto a = torch::ones({}, torch::requires_grad());
      const auto b = torch::ones({}, torch::requires_grad());
      Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1).weight_decay(0.1),
                          Options().stage(stage).bucket_bytes(4).first_bucket_bytes(4), comm);
      optimizer.backward(comm->rank() == 0 ? a * 2 : a * 4 + b * 6);
      EXPECT_TRUE(optimizer.step().applied);
      EXPECT_EQ(optimizer.gather("a", StateKind::kGradient).item<float>(), 3);
      EXPECT_EQ(optimizer.gather("b", StateKind::kGradient).item<float>(), 3);
      optimizer.shutdown();
    });
  }
}

TEST(Arrival, ASparseGradientIsRefusedByNameAtEveryStageAndLeavesNoTrace) {
  for (const int stage : {0, 1, 2}) {
    for (const bool defer : {false, true}) {
      SCOPED_TRACE("stage " + std::to_string(stage));
      on_every_rank(2, [&](const Comm& comm) {
        const auto table = torch::zeros({3, 2}, torch::requires_grad());
        const auto plain = torch::zeros({2}, torch::requires_grad());
        Optimizer optimizer({{"plain", plain}, {"table", table}}, {}, AdamWOptions(0.1),
                            tiny_options(stage).defer_reduction(defer), comm);
        const auto loss = [&](bool sparse) {
          const auto rows =
              torch::embedding(table, torch::tensor({std::int64_t{1}}), -1, false, sparse);
          return (rows * torch::tensor({{1.0f, -1.0f}})).sum() + plain.sum();
        };
        EXPECT_THAT(thrown<ContractError>([&] { optimizer.backward(loss(true)); }),
                    AllOf(HasSubstr("sparse"), HasSubstr("parameter table")));
        EXPECT_THAT(thrown<ContractError>([&] { optimizer.step(); }),
                    HasSubstr("a backward call threw"));
        optimizer.backward(loss(false));
        optimizer.step();
        EXPECT_TRUE(torch::equal(optimizer.gather("table", StateKind::kGradient),
                                 torch::tensor({{0.0f, 0.0f}, {1.0f, -1.0f}, {0.0f, 0.0f}})));
        EXPECT_TRUE(
            torch::equal(optimizer.gather("plain", StateKind::kGradient), torch::ones({2})));
        optimizer.shutdown();
      });
    }
  }
}

TEST(UserGradients, ZeroGradOfTheModuleChangesNothing) {
  const Snapshot expected = without_accident(3);
  for (const int stage : {0, 1, 2}) {
    for (const bool set_to_none : {true, false}) {
      on_every_rank(2, [&](const Comm& comm) {
        Trainee trainee(comm, tiny_options(stage));
        for (std::int64_t step = 0; step < 3; ++step) {
          trainee.model->zero_grad(set_to_none);
          for (std::int64_t i = comm->rank(); i < 6; i += 2) {
            if (set_to_none) trainee.model->zero_grad();
            trainee.optimizer->backward(trainee.model->loss(tiny_input(step, i)));
          }
          trainee.optimizer->step();
        }
        expect_same(expected, snapshot(trainee.model));
        trainee.optimizer->shutdown();
      });
    }
  }
}

TEST(UserGradients, GradientsThatAutogradSharesBetweenParametersStayApart) {
  for (const int stage : {0, 1, 2}) {
    for (const bool zero_grad : {false, true}) {
      SCOPED_TRACE("stage " + std::to_string(stage));
      on_every_rank(2, [&](const Comm& comm) {
        const auto p = torch::zeros({2, 3}, torch::requires_grad());
        const auto q = torch::zeros({6}, torch::requires_grad());
        Optimizer optimizer({{"p", p}, {"q", q}}, {}, AdamWOptions(0.1), tiny_options(stage), comm);
        const auto c = numbers({6}, 3);
        for (int call = 0; call < 2; ++call) {
          if (zero_grad) {
            p.mutable_grad().reset();
            q.mutable_grad().reset();
          }
          optimizer.backward(((p.view({6}) + q) * c).sum());
        }
        optimizer.step();
        EXPECT_TRUE(torch::equal(optimizer.gather("p", StateKind::kGradient).view({6}), c));
        EXPECT_TRUE(torch::equal(optimizer.gather("q", StateKind::kGradient), c));
        optimizer.shutdown();
      });
    }
  }
}

TEST(UserGradients, WhatLiesThereBeforeConstructionIsDropped) {
  const Snapshot expected = without_accident(1);
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Tiny model;
      model->loss(tiny_input(9, 0)).backward();
      Optimizer optimizer(*model, AdamWOptions(1e-2).weight_decay(0.1), tiny_options(stage), comm);
      for (std::int64_t i = comm->rank(); i < 6; i += 2)
        optimizer.backward(model->loss(tiny_input(0, i)));
      optimizer.step();
      expect_same(expected, snapshot(model));
      optimizer.shutdown();
    });
  }
}

TEST(UserGradients, AHookThatReplacesOneByAnotherShapeIsRefused) {
  for (const bool defer : {false, true}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(1).defer_reduction(defer));
      trainee.window(0);
      trainee.model->bias.mutable_grad() = {torch::zeros({7, 5})};
      trainee.optimizer->zero_grad();
      trainee.backward(1);
      EXPECT_TRUE(trainee.optimizer->step().applied);
      auto& bias = trainee.model->bias;
      bias.register_hook([&bias](const torch::Tensor&) {
        bias.mutable_grad() = torch::ones({3, 5});
      });
      EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(2); }), HasSubstr("parameter bias"));
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                  HasSubstr("a backward call threw"));
      trainee.optimizer->shutdown();
    });
  }
}

TEST(UserGradients, AGradientSetByHandIsRefusedByNameInTheNextBackward) {
  expect_no_trace(2, [](Trainee& trainee) {
    auto& bias = trainee.model->bias;
    bias.mutable_grad() = torch::ones({5});
    EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(7); }),
                AllOf(HasSubstr(".grad"), HasSubstr("parameter bias")));
    bias.mutable_grad() = torch::ones({7, 7, 5});
    EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(7); }),
                AllOf(HasSubstr(".grad"), HasSubstr("parameter bias")));
    trainee.optimizer->zero_grad();
  });
}

/// `change` and `repair` happen to rank 1's model, outside a window and inside one.
void expect_refused(const std::string& what, const std::function<void(TinyImpl&)>& change,
                    const std::function<void(TinyImpl&)>& repair) {
  expect_no_trace(2, [&](Trainee& trainee) {
    SCOPED_TRACE(what);
    const bool one = trainee.comm->rank() == 1;
    const Stopwatch watch;
    if (one) {
      change(*trainee.model);
      const auto loss = torch::zeros({}, torch::requires_grad());
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->backward(loss); }),
                  HasSubstr(what));
      repair(*trainee.model);
    }
    trainee.optimizer->backward(trainee.model->loss(tiny_input(7, 0)));
    trainee.comm->barrier("rank 0 reaches its step while rank 1 still works")->wait();
    if (one) change(*trainee.model);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                one ? HasSubstr(what) : HasSubstr("rank 1"));
    if (one) repair(*trainee.model);
    EXPECT_LT(watch.elapsed(), kPrompt);
  });
}

TEST(ChangedParameters, AreRefusedByNameOnEveryRankRatherThanWrittenTo) {
  const auto data_of = [](torch::Tensor& tensor, const torch::Tensor& data) {
    tensor.set_data(data);
  };
  torch::Tensor kept;
  const auto keep = [&](const torch::Tensor& tensor) { kept = tensor.detach(); };
  expect_refused(
      "parameter bias",
      [&](auto& model) {
        keep(model.bias);
        data_of(model.bias, torch::zeros({1}));
      },
      [&](auto& model) { data_of(model.bias, kept); });
  expect_refused(
      "parameter bias",
      [&](auto& model) {
        keep(model.bias);
        data_of(model.bias, torch::zeros({9, 5}));
      },
      [&](auto& model) { data_of(model.bias, kept); });
  expect_refused(
      "parameter gain", [&](auto& model) { model.gain.requires_grad_(false); },
      [&](auto& model) { model.gain.requires_grad_(true); });
}

TEST(ChangedParameters, AnotherDtypeIsRefusedByName) {
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      trainee.window(0);
      trainee.backward(1);
      trainee.model->to(torch::kBFloat16);
      EXPECT_THAT(thrown<ContractError>([&] { trainee.optimizer->step(); }),
                  HasSubstr("parameter first"));
      EXPECT_THAT(thrown<ContractError>([&] { trainee.backward(1); }),
                  HasSubstr("parameter first"));
      trainee.optimizer->shutdown();
    });
  }
}

TEST(ChangedParameters, NewMemoryOfTheSameShapeIsFine) {
  const Snapshot expected = without_accident(2);
  for (const int stage : {0, 1, 2}) {
    on_every_rank(2, [&](const Comm& comm) {
      Trainee trainee(comm, tiny_options(stage));
      trainee.window(0);
      for (auto& parameter : trainee.model->parameters())
        parameter.set_data(parameter.detach().clone());
      trainee.window(1);
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

TEST(ChangedParameters, AnotherDtypeForAWhileLosesNoGradientInSilence) {
  const Snapshot expected = without_accident(2);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm);
    trainee.window(0);
    torch::Tensor& bias = trainee.model->bias;
    const torch::Tensor values = bias.detach();
    bias.set_data(values.to(torch::kBFloat16));
    bias.set_data(values);
    EXPECT_THAT(thrown<ContractError>([&] { trainee.window(1); }),
                AllOf(HasSubstr("calculate the loss again"), HasSubstr("parameter bias")));
    trainee.window(1);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST(ChangedParameters, AFrozenOneThatIsThawedIsRefusedByName) {
  on_every_rank(1, [](const Comm& comm) {
    const auto a = torch::ones({2}, torch::requires_grad());
    auto frozen = torch::ones({2});
    Optimizer optimizer({{"a", a}, {"frozen", frozen}}, {}, AdamWOptions(0.1), tiny_options(2),
                        comm);
    frozen.requires_grad_(true);
    EXPECT_THAT(thrown<ContractError>([&] { optimizer.backward((a + frozen).sum()); }),
                HasSubstr("parameter frozen"));
  });
}

}  // namespace
}  // namespace zero::testing
