#include <algorithm>

#include "tests/optim/misuse_support.h"
#include "tests/optim/toy_model.h"
#include "tests/train/weights_file.h"

namespace zero::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

/// Values that no model starts with, of the toy model's shapes; the tied parameter under its first
/// name.
Tensors toy_weights(double seed, torch::Dtype dtype = torch::kFloat) {
  const ToyModel model;
  Tensors tensors;
  for (const auto& item : model->named_parameters()) {
    if (item.key() != "output")
      tensors[item.key()] = numbers(item.value().sizes(), seed, 0.3).to(dtype);
    seed += 1;
  }
  tensors["scale"] = torch::full({1}, 1.5F).to(dtype);
  return tensors;
}

/// One rank of a training of the toy model.
struct Toy {
  explicit Toy(const Comm& communicator, int stage = 2, torch::Dtype dtype = torch::kFloat)
      : comm(communicator),
        model(dtype),
        optimizer(*model, AdamWOptions(1e-2).weight_decay(0.1), toy_options(stage), comm) {}

  void window(std::int64_t step) {
    toy_backward(optimizer, model, step, 6, comm->rank(), comm->size());
    optimizer.step();
  }
  torch::Tensor tensor(const std::string& name) const {
    if (name == "scale") return model->scale;
    return model->named_parameters()[name].detach();
  }
  Snapshot everything() {
    Snapshot result = snapshot(model);
    result.emplace_back("scale", model->scale.clone());
    for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
      for (const auto& item : model->named_parameters()) {
        if (item.value().requires_grad())
          result.emplace_back(item.key(), optimizer.gather(item.key(), kind));
      }
    }
    return result;
  }

  Comm comm;
  ToyModel model;
  Optimizer optimizer;
};

struct World {
  int ranks;
  int stage;
};

class LoadParameters : public ::testing::TestWithParam<World> {
 protected:
  void on_toys(const std::function<void(Toy&)>& function, torch::Dtype dtype = torch::kFloat) {
    on_every_rank(GetParam().ranks, [&](const Comm& comm) {
      Toy toy(comm, GetParam().stage, dtype);
      function(toy);
      toy.optimizer.shutdown();
    });
  }
  std::string path(const std::string& name = "weights.safetensors") const { return folder_ / name; }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Worlds, LoadParameters,
                         ::testing::Values(World{1, 2}, World{2, 0}, World{2, 1}, World{3, 2}),
                         [](const auto& each) {
                           return "Ranks" + std::to_string(each.param.ranks) + "Stage" +
                                  std::to_string(each.param.stage);
                         });

TEST_P(LoadParameters, EveryValueArrivesOnEveryRankAndMomentsStay) {
  const Tensors tensors = toy_weights(5);
  write_weights(path(), tensors);
  on_toys([&](Toy& toy) {
    toy.window(0);
    const torch::Tensor moment = toy.optimizer.gather("mixed", StateKind::kExpAvg);
    const ParametersReport report = toy.optimizer.load_parameters(path());
    for (const auto& [name, value] : tensors)
      EXPECT_TRUE(torch::equal(toy.tensor(name), value)) << name;
    EXPECT_TRUE(
        torch::equal(toy.optimizer.gather("output", StateKind::kMaster), tensors.at("embedding")));
    EXPECT_TRUE(torch::equal(toy.optimizer.gather("mixed", StateKind::kExpAvg), moment));
    EXPECT_EQ(toy.optimizer.steps_applied(), 1);
    EXPECT_EQ(report.file, path());
    EXPECT_EQ(to_text(report), "parameters and buffers  restored, 10 tensors\n");
  });
}

TEST_P(LoadParameters, MastersOf16BitParametersKeepTheFilesFullPrecision) {
  const Tensors tensors = toy_weights(6);
  write_weights(path(), tensors);
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kHalf}) {
    on_toys(
        [&](Toy& toy) {
          const ParametersReport report = toy.optimizer.load_parameters(
              path(), LoadParametersOptions().allow_dtype_change(true));
          for (const auto& [name, value] : tensors) {
            EXPECT_TRUE(torch::equal(toy.tensor(name), value.to(dtype))) << name;
            if (name == "frozen" || name == "scale") continue;
            EXPECT_TRUE(torch::equal(toy.optimizer.gather(name, StateKind::kMaster), value))
                << name;
          }
          EXPECT_THAT(to_text(report), HasSubstr("tensors of F32 as "));
          EXPECT_THAT(to_text(report), HasSubstr("converted, 10"));
        },
        dtype);
  }
}

TEST_P(LoadParameters, TrainingGoesOnWithTheSameBitsOnEveryWorld) {
  write_weights(path(), toy_weights(7));
  const auto train = [&](Toy& toy) {
    toy.optimizer.load_parameters(path(), LoadParametersOptions().allow_dtype_change(true));
    for (std::int64_t step = 0; step < 3; ++step) toy.window(step);
    return toy.everything();
  };
  Snapshot expected;
  on_every_rank(1, [&](const Comm& comm) {
    Toy toy(comm, 0, torch::kBFloat16);
    expected = train(toy);
    toy.optimizer.shutdown();
  });
  on_toys([&](Toy& toy) { expect_same(expected, train(toy)); }, torch::kBFloat16);
}

TEST_P(LoadParameters, EverythingThatDoesNotFitIsListedAtOnceAndNothingChanges) {
  Tensors tensors = toy_weights(8);
  tensors.erase("mixed");
  tensors.erase("scale");
  tensors["gain"] = torch::zeros({1});
  tensors["frozen"] = tensors["frozen"].to(torch::kHalf);
  tensors["first.bias"] = torch::zeros({72}, torch::kLong);
  tensors["stranger"] = torch::zeros({2, 2});
  write_weights(path(), tensors);
  on_toys([&](Toy& toy) {
    toy.window(0);
    const Snapshot before = toy.everything();
    const std::string error = thrown<ContractError>([&] { toy.optimizer.load_parameters(path()); });
    for (const char* line :
         {"the file lacks it (allow_missing keeps its present value): mixed F32 [24, 24]",
          "the file lacks it (allow_missing keeps its present value): scale F32 [1]",
          "another shape: gain is [] in the model and [1] in the file",
          "another dtype (allow_dtype_change converts it): frozen is Float in the model and F16",
          "another dtype, which cannot be converted: first.bias is Float in the model and I64",
          "the model has no tensor of this name (allow_extra leaves it out): stranger F32 [2, 2]",
          "nothing was changed"})
      EXPECT_THAT(error, HasSubstr(line));
    expect_same(before, toy.everything());
    toy.window(1);  // and training goes on
    EXPECT_EQ(toy.optimizer.steps_applied(), 2);
  });
}

TEST_P(LoadParameters, WhatIsAllowedIsReported) {
  Tensors tensors = toy_weights(9);
  tensors.erase("mixed");
  tensors["frozen"] = tensors["frozen"].to(torch::kHalf);
  tensors["stranger"] = torch::zeros({2, 2});
  write_weights(path(), tensors);
  const auto options =
      LoadParametersOptions().allow_missing(true).allow_extra(true).allow_dtype_change(true);
  on_toys([&](Toy& toy) {
    const torch::Tensor mixed = toy.tensor("mixed").clone();
    // Rank 0's arguments count.
    const bool is_first = toy.comm->rank() == 0;
    const ParametersReport report = toy.optimizer.load_parameters(
        is_first ? path() : "nowhere", is_first ? options : LoadParametersOptions());
    EXPECT_TRUE(torch::equal(toy.tensor("mixed"), mixed));
    EXPECT_TRUE(torch::equal(toy.tensor("frozen"), tensors["frozen"].to(torch::kFloat)));
    EXPECT_TRUE(torch::equal(toy.tensor("gain"), tensors["gain"]));
    const std::string text = to_text(report);
    EXPECT_THAT(text, HasSubstr("defaulted, not in the file: its value stays"));
    EXPECT_THAT(text, HasSubstr("dropped, the model has no tensor of this name"));
    EXPECT_THAT(text, HasSubstr("converted, 1"));
    EXPECT_THAT(text, HasSubstr("restored, 8 tensors"));
  });
}

TEST_P(LoadParameters, ATiedParameterIsFoundUnderAnyOfItsNames) {
  Tensors tensors = toy_weights(10);
  const torch::Tensor tied = tensors["embedding"];
  tensors["output"] = tied;
  write_weights(path("both"), tensors);
  tensors.erase("embedding");
  write_weights(path("alias"), tensors);
  tensors.erase("output");
  tensors["wte"] = tied;
  write_weights(path("listed"), tensors, {{"libzero.alias.output", "wte"}});
  for (const char* name : {"both", "alias", "listed"}) {
    on_toys([&](Toy& toy) {
      toy.optimizer.load_parameters(path(name));
      EXPECT_TRUE(torch::equal(toy.tensor("embedding"), tied)) << name;
      EXPECT_TRUE(torch::equal(toy.optimizer.gather("output", StateKind::kMaster), tied)) << name;
    });
  }
}

TEST_P(LoadParameters, TwoValuesOfATiedParameterAreRefusedAndNothingChanges) {
  Tensors tensors = toy_weights(11);
  tensors["output"] = tensors["embedding"].clone();
  tensors["output"][39][23] += 1;
  write_weights(path(), tensors);
  on_toys([&](Toy& toy) {
    const Snapshot before = toy.everything();
    EXPECT_THAT(thrown<ContractError>([&] { toy.optimizer.load_parameters(path()); }),
                HasSubstr("embedding and output"));
    expect_same(before, toy.everything());
  });
}

TEST_P(LoadParameters, WhatIsNoWeightFileThrowsTheSameOnEveryRank) {
  std::ofstream(path("text")) << "these are no weights, but enough bytes for a header's length";
  on_toys([&](Toy& toy) {
    const Snapshot before = toy.everything();
    EXPECT_THAT(thrown<IoError>([&] { toy.optimizer.load_parameters(path("missing")); }),
                HasSubstr(path("missing")));
    EXPECT_THAT(thrown<FormatError>([&] { toy.optimizer.load_parameters(path("text")); }),
                HasSubstr(path("text")));
    expect_same(before, toy.everything());
  });
}

TEST_P(LoadParameters, DropsTheGradientsOfTheOldWeights) {
  write_weights(path(), toy_weights(12));
  on_toys([&](Toy& toy) {
    toy_backward(toy.optimizer, toy.model, 0, 6, toy.comm->rank(), toy.comm->size());
    toy.optimizer.load_parameters(path());
    EXPECT_THROW(toy.optimizer.step(), ContractError);  // there is no gradient
    toy.window(0);
  });
}

TEST_P(LoadParameters, ValuesBeyondTheModelsTypeAreReported) {
  Tensors tensors = toy_weights(13);
  tensors["frozen"] = torch::full({24}, 1e6F);
  tensors["mixed"] = torch::full({24, 24}, -1e6F);  // trainable: its master holds it
  write_weights(path(), tensors);
  on_toys(
      [&](Toy& toy) {
        const ParametersReport report =
            toy.optimizer.load_parameters(path(), LoadParametersOptions().allow_dtype_change(true));
        EXPECT_THAT(to_text(report), HasSubstr("warning: finite values that the model's dtype "
                                               "cannot hold became infinite: 600"));
      },
      torch::kHalf);
}

}  // namespace
}  // namespace zero::testing
