#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/rule_name.h"
#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string write(const Folder& folder, const std::string& text) {
  std::string path = folder / "model.json";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(Estimate, OneRowForEachStageAndWorldInBytes) {
  const json got = zero_json(
      {"estimate", "--params", "7B", "--world", "8..64", "--precision", "bf16", "--stage", "all"});
  ASSERT_EQ(got["rows"].size(), 12u);
  EXPECT_EQ(got["elements"], 7'000'000'000);
  EXPECT_EQ(got["precision"], "bfloat16");
  EXPECT_EQ(got["activations"], nullptr);
  const json& row = got["rows"][8];
  EXPECT_EQ(row["stage"], 2);
  EXPECT_EQ(row["world_size"], 8);
  EXPECT_EQ(row["parameters"], 14'000'000'000);
  EXPECT_EQ(row["gradients"], 0);
  EXPECT_NEAR(row["accumulator"], 3.5e9, 1e7);
  EXPECT_NEAR(row["master"], 3.5e9, 1e7);
  EXPECT_EQ(row["fits"], nullptr);
}

TEST(Estimate, SaysWhatFitsAndExitsWithOneWhereNothingDoes) {
  const std::vector<std::string> model = {"estimate",    "--params", "7B",
                                          "--precision", "bf16",     "--gpu-memory"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = model;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Result some = zero(with({"80G", "--world", "1..8"}));
  EXPECT_EQ(some.code, 0);
  EXPECT_THAT(some.out, AllOf(HasSubstr("fits in 80.0 GiB: stage 0 on none of these; stage 1 from "
                                        "2 ranks; stage 2 from 2 ranks"),
                              HasSubstr("activations are not counted")));
  EXPECT_EQ(zero(with({"8G", "--world", "1..8"})).code, 1);
}

TEST(Estimate, ACheckpointIsAModel) {
  const json got = zero_json({"estimate", "--model", golden_root(), "--world", "2"});
  const json whole = zero_json({"inspect", golden_root()});
  std::int64_t elements = 0;
  for (const json& parameter : whole["parameters"]) {
    if (parameter["kind"] == "trainable") elements += parameter["elements"].get<std::int64_t>();
  }
  EXPECT_EQ(got["elements"], elements);
}

/// A tiny state of this rule, saved. Returns the root.
std::string save_state(const std::string& root, const std::string& rule,
                       const std::vector<std::string>& states) {
  checkpoint::CommonState common;
  common.parameters = {{"w", {4}, DType::kFloat32, 0, true, -1}};
  common.groups = {{{"lr", 0.5}}};
  checkpoint::put_rule(rule, common);
  const std::vector<std::byte> memory(16);
  checkpoint::RankState state;
  for (const std::string& name : states) {
    checkpoint::StateView view{name, DType::kFloat32, {{0, 0, 4}}, {}};
    view.pieces.emplace_back(memory);
    state.states.push_back(std::move(view));
  }
  const auto store = checkpoint::make_hdf5_store(checkpoint::on_disk(), root);
  const auto writer = store->begin(common, 1);
  writer->put(0, state);
  writer->commit();
  return root;
}

TEST(Estimate, TheRuleAndTheAverageSayWhatIsKept) {
  const auto row = [](std::vector<std::string> more) {
    std::vector<std::string> all = {"estimate", "--params", "64M", "--world", "2", "--stage", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return zero_json(all)["rows"][0];
  };
  const json adamw = row({});
  const std::int64_t moment = adamw["exp_avg"];
  EXPECT_NEAR(moment, 4 * 32e6, 1e6);
  EXPECT_EQ(adamw["exp_avg_sq"], moment);
  EXPECT_EQ(adamw["momentum_buffer"], 0);
  EXPECT_EQ(adamw["ema"], 0);
  const json plain = row({"--optimizer", "sgd"});
  EXPECT_EQ(plain["exp_avg"], 0);
  EXPECT_EQ(plain["momentum_buffer"], 0);
  const json averaged = row({"--optimizer", "sgd", "--momentum", "--ema"});
  EXPECT_EQ(averaged["momentum_buffer"], moment);
  EXPECT_EQ(averaged["ema"], moment);
  EXPECT_EQ(averaged["total"], adamw["total"]);
  EXPECT_EQ(row({"--ema", "--optimizer", "adamw"})["ema"], moment);
}

TEST(Estimate, TheTableNamesTheRuleAndShowsWhatItKeeps) {
  const auto text = [](std::vector<std::string> more) {
    std::vector<std::string> all = {"estimate", "--params", "64M", "--world", "2", "--stage", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return zero(all).out;
  };
  EXPECT_THAT(text({}), AllOf(HasSubstr("AdamW; of each rank"), HasSubstr("moments"),
                              Not(HasSubstr("average"))));
  EXPECT_THAT(text({"--optimizer", "sgd"}),
              AllOf(HasSubstr("SGD; of each rank"), Not(HasSubstr("moments"))));
  EXPECT_THAT(text({"--optimizer", "sgd", "--momentum", "--ema"}),
              AllOf(HasSubstr("SGD with momentum, an average of the weights; of each rank"),
                    ContainsRegex("moments +average")));
}

TEST(Estimate, ACheckpointSaysWhichRuleItIsOfAndWhetherItHasAnAverage) {
  const auto of = [](const std::string& rule, const std::vector<std::string>& states,
                     std::vector<std::string> more = {}) {
    Folder folder;
    more.insert(more.begin(), {"estimate", "--model", save_state(folder / "r", rule, states)});
    return zero_json(more);
  };
  const json adamw = of("AdamW", {"master", "exp_avg", "exp_avg_sq"});
  EXPECT_EQ(adamw["optimizer"], "AdamW");
  EXPECT_EQ(adamw["ema"], false);
  EXPECT_EQ(adamw["rows"][0]["exp_avg_sq"], 16);
  EXPECT_EQ(of("AdamW", {"master", "exp_avg", "exp_avg_sq", "ema"})["rows"][0]["ema"], 16);
  const json plain = of("SGD", {"master"});
  EXPECT_EQ(plain["optimizer"], "SGD");
  EXPECT_EQ(plain["momentum"], false);
  EXPECT_EQ(plain["rows"][0]["exp_avg"], 0);
  const std::vector<std::string> with_momentum = {"master", "momentum_buffer", "ema"};
  const json momentum = of("SGD", with_momentum);
  EXPECT_EQ(momentum["momentum"], true);
  EXPECT_EQ(momentum["rows"][0]["momentum_buffer"], 16);
  EXPECT_EQ(momentum["rows"][0]["ema"], 16);
  const json asked = of("SGD", with_momentum, {"--optimizer", "adamw"});
  EXPECT_EQ(asked["rows"][0]["exp_avg"], 16) << "the command line has the last word";
  EXPECT_EQ(asked["rows"][0]["momentum_buffer"], 0);
  EXPECT_EQ(asked["rows"][0]["ema"], 16);
}

TEST(Estimate, ACheckpointOfARuleThatNobodyKnowsNeedsOneToBeChosen) {
  Folder folder;
  const std::string root = save_state(folder / "r", "RMSprop", {"master", "square_avg"});
  expect_one_complaint(zero({"estimate", "--model", root}), 2, "RMSprop");
  EXPECT_EQ(zero({"estimate", "--model", root, "--optimizer", "sgd", "--momentum"}).code, 0);
}

TEST(Estimate, AFileGivesRowsAndShapeAndTheCommandLineHasTheLastWord) {
  Folder folder;
  const std::string path = write(folder, R"({"layers": 2, "hidden": 64, "heads": 4, "context": 16,
    "parameters": [{"name": "e", "shape": [100, 64], "dtype": "bfloat16"},
                   {"name": "head", "shape": [100, 64], "dtype": "bfloat16", "alias_of": "e"},
                   {"name": "f", "shape": [10], "kind": "frozen"},
                   {"name": "b", "shape": [3], "dtype": "int64", "kind": "buffer"}]})");
  const json got = zero_json({"estimate", "--model", path, "--world", "1", "--stage", "2"});
  EXPECT_EQ(got["elements"], 6400);
  EXPECT_EQ(got["rows"][0]["parameters"], 12800);
  EXPECT_EQ(got["rows"][0]["frozen"], 40);
  EXPECT_EQ(got["rows"][0]["buffers"], 24);
  EXPECT_EQ(got["activations"]["layers"], 2 * (16 * 64 * 34 + 5 * 4 * 16 * 16));
  const json longer = zero_json({"estimate", "--model", path, "--context", "32", "--no-dropout",
                                 "--fused-attention", "--micro-batch", "3"});
  EXPECT_EQ(longer["activations"]["layers"], 2 * (3 * 32 * 64 * 32 + 3 * 32 * 4 * 4));
  const json shape_only =
      zero_json({"estimate", "--model", write(folder, R"({"layers":12,"hidden":768,"heads":12,
                                                "vocabulary":50257,"context":1024})")});
  EXPECT_EQ(shape_only["elements"], 124439808);
}

TEST(Estimate, WhatBackwardComputesAgainIsNotKept) {
  const auto kept = [](const char* which) {
    return zero_json({"estimate", "--layers", "2", "--hidden", "64", "--heads", "4", "--vocabulary",
                      "10", "--context", "16", "--precision", "bf16", "--recompute",
                      which})["activations"]["layers"]
        .get<std::int64_t>();
  };
  const std::int64_t stream = 16 * 64, scores = 5 * 4 * 16 * 16;
  EXPECT_EQ(kept("none"), 2 * (34 * stream + scores));
  EXPECT_EQ(kept("attention"), 2 * 34 * stream);
  EXPECT_EQ(kept("layers"), 2 * 2 * stream + 34 * stream + scores);
}

TEST(Estimate, TheWiresDtypeIsThatOfTheStagingBuffer) {
  const auto staging = [](const char* wire) {
    return zero_json({"estimate", "--params", "64M", "--world", "2", "--stage", "2", "--precision",
                      "bf16", "--wire", wire})["rows"][0]["staging"]
        .get<std::int64_t>();
  };
  EXPECT_EQ(staging("fp32"), 2 * staging("bf16"));
}

TEST(Estimate, OffloadedStateLiesElsewhere) {
  const json beside = zero_json({"estimate", "--params", "64M", "--world", "2", "--stage", "1"});
  const json disk = zero_json(
      {"estimate", "--params", "64M", "--world", "2", "--stage", "1", "--offload", "disk"});
  EXPECT_EQ(disk["rows"][0]["exp_avg"], 0);
  EXPECT_EQ(disk["rows"][0]["offloaded"], 2 * beside["rows"][0]["exp_avg"].get<std::int64_t>());
  EXPECT_EQ(disk["state"], "disk");
  EXPECT_GT(disk["rows"][0]["offload_ring"], 0);
  const json host = zero_json(
      {"estimate", "--params", "64M", "--world", "2", "--stage", "1", "--offload", "host"});
  EXPECT_GT(host["rows"][0]["offloaded"], disk["rows"][0]["offloaded"]);
  EXPECT_EQ(host["rows"][0]["accumulator"], 0) << "only the model lies on the GPU";
  EXPECT_EQ(host["rows"][0]["offload_ring"], 0);
}

TEST(Estimate, AHostileFileIsANoThatNamesIt) {
  Folder folder;
  const std::string row = R"({"name": "a", "shape": [1]})";
  for (const std::string& text : std::vector<std::string>{
           "",
           "{",
           "[]",
           "nonsense",
           R"({"layers": 1.5})",
           R"({"layers": -1})",
           R"({"layers": 0})",
           R"({"layers": 1e30})",
           R"({"hidden": 268435457})",
           R"({"layers": 65537})",
           R"({"layers": 18446744073709551615})",
           R"({"layer": 1})",
           R"({"layers": 1, "hidden": 8, "layers": 2})",
           R"({"parameters": 1})",
           R"({"parameters": [1]})",
           R"({"parameters": [{"name": "a"}]})",
           R"({"parameters": [{"name": "", "shape": []}]})",
           R"({"parameters": [{"name": "\u0000", "shape": []}]})",
           R"({"parameters": [{"name": "a", "shape": [-1]}]})",
           R"({"parameters": [{"name": "a", "shape": [1,1,1,1,1,1,1,1,1]}]})",
           R"({"parameters": [{"name": "a", "shape": [1125899906842624, 1125899906842624]}]})",
           R"({"parameters": [{"name": "a", "shape": [1125899906842624]},
                              {"name": "b", "shape": [1]}]})",
           R"({"parameters": [{"name": "a", "shape": [[1]]}]})",
           R"({"parameters": [{"name": "a", "shape": [1], "dtype": "float8"}]})",
           R"({"parameters": [{"name": "a", "shape": [1], "dtype": "int64"}]})",
           R"({"parameters": [{"name": "a", "shape": [1], "kind": "odd"}]})",
           R"({"parameters": [{"name": "a", "shape": [1], "alias_of": "a"}]})",
           R"({"parameters": [{"name": "a", "shape": [1], "colour": 1}]})",
           "{\"parameters\": [" + row + "," + row + "]}",
           std::string(100000, '['),
           "{\"layers\": 1, \"x\xff\": 2}"}) {
    const std::string path = write(folder, text);
    const Result result = zero({"estimate", "--model", path});
    expect_one_complaint(result, 1, path);
    EXPECT_EQ(result.code, 1) << text.substr(0, 80);
  }
}

TEST(Estimate, AMemberThatComesTwiceIsNamed) {
  Folder folder;
  const auto refused = [&](const std::string& text, const std::string& name) {
    const Result result = zero({"estimate", "--model", write(folder, text)});
    expect_one_complaint(result, 1, "comes twice in one object: '" + name + "'");
  };
  refused(R"({"hidden": 8, "layers": 1, "hidden": 8})", "hidden");
  refused(R"({"parameters": [], "parameters": []})", "parameters");
  refused(R"({"parameters": [{"name": "a", "shape": [1], "shape": [2]}]})", "shape");
  EXPECT_EQ(zero({"estimate", "--model", write(folder, R"({"parameters": [
                  {"name": "a", "shape": [1]}, {"name": "b", "shape": [1]}]})")})
                .code,
            0)
      << "each object has its own";
}

TEST(Estimate, ASequenceDoesNotGoBeyondTheContext) {
  Folder folder;
  const std::string path = write(folder, R"({"layers":2,"hidden":8,"heads":1,"context":64,
                                             "vocabulary":10})");
  EXPECT_EQ(zero({"estimate", "--model", path, "--sequence", "64"}).code, 0);
  expect_one_complaint(zero({"estimate", "--model", path, "--sequence", "65"}), 2,
                       "--sequence must not be longer than the model's context, its --context: "
                       "65 and 64");
  EXPECT_EQ(zero({"estimate", "--model", path, "--sequence", "65", "--context", "65"}).code, 0);
  EXPECT_EQ(zero({"estimate", "--params", "1M", "--sequence", "65"}).code, 0)
      << "no context is known";
}

TEST(Estimate, ArgumentsAreChecked) {
  Folder folder;
  expect_one_complaint(zero({"estimate"}), 2, "--params");
  expect_one_complaint(zero({"estimate", "--params", "7X"}), 2, "7X");
  expect_one_complaint(zero({"estimate", "--params", "1", "--model", "x"}), 2, "contradict");
  expect_one_complaint(zero({"estimate", "--params", "7B", "--stage", "3"}), 2, "--stage");
  expect_one_complaint(zero({"estimate", "--params", "7B", "--optimizer", "adam"}), 2, "adamw");
  expect_one_complaint(zero({"estimate", "--params", "7B", "--momentum"}), 2, "--momentum");
  expect_one_complaint(zero({"estimate", "--params", "7B", "--gpu-memory", "x"}), 2, "no size");
  expect_one_complaint(zero({"estimate", "--params", "7B", "--gpu-memory", "0K"}), 2,
                       "nothing fits in no memory");
  expect_one_complaint(zero({"estimate", "--layers", "2"}), 2, "hidden");
  for (const char* world : {"0", "8..4", "", "1,", "x", "65537", "1..65537", "-1", "1...4"}) {
    expect_one_complaint(zero({"estimate", "--params", "7B", "--world", world}), 2, "--world");
  }
  expect_one_complaint(zero({"estimate", "--model", folder / "none.json"}), 3, "none.json");
}

}  // namespace
}  // namespace zero::cli::testing
