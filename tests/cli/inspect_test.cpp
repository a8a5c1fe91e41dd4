#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/rank_memory.h"
#include "sample.h"
#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using checkpoint::Sample;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InspectGolden : public ::testing::TestWithParam<int> {};

DType dtype_of(const std::string& name) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64, DType::kUInt8}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw std::runtime_error("no dtype: " + name);
}

TEST_P(InspectGolden, TellsWhoSavedWhatWhen) {
  const int world_size = GetParam();
  const std::string directory = step_directory(golden_root(), world_size);
  const Sample sample(world_size, world_size);
  const json got = zero_json({"inspect", directory});
  EXPECT_EQ(got["directory"], directory);
  EXPECT_EQ(got["run_id"], sample.common().run_id);
  EXPECT_EQ(got["step"], world_size);
  EXPECT_EQ(got["world_size"], world_size);
  EXPECT_EQ(got["stage"], sample.common().stage);
  EXPECT_EQ(got["writer"], "libzero golden");
  EXPECT_EQ(got["created"], "");
  EXPECT_EQ(got["block_bytes"], 64);
  EXPECT_EQ(got["counters"], json(sample.common().counters));
  EXPECT_EQ(got["groups"], json(sample.common().groups));
  EXPECT_EQ(got["scaler"]["scale"], sample.common().scaler.scale);
  EXPECT_EQ(got["scaler"]["growth_tracker"], sample.common().scaler.growth_tracker);
  EXPECT_EQ(got["blobs"], json({{"empty", 0}, {"schedule", 33}}));
  EXPECT_EQ(got["ranks"].size(), static_cast<std::size_t>(world_size));
  EXPECT_EQ(got["ranks"].back()["blobs"], json({{"rng", 11}, {"sampler", world_size - 1}}));
  EXPECT_EQ(got["totals"]["trainable"], 4);
  EXPECT_EQ(got["totals"]["frozen"], 1);
  EXPECT_EQ(got["totals"]["buffers"], 2);
  EXPECT_EQ(got["totals"]["aliases"], 1);
}

TEST_P(InspectGolden, ListsEveryParameter) {
  const int world_size = GetParam();
  const Sample sample(world_size, world_size);
  const json got = zero_json({"inspect", step_directory(golden_root(), world_size)})["parameters"];
  ASSERT_EQ(got.size(), sample.common().parameters.size());
  const std::vector<std::string> kinds = {"trainable", "trainable", "trainable", "trainable",
                                          "frozen",    "alias",     "buffer",    "buffer"};
  for (std::size_t row = 0; row < got.size(); ++row) {
    const ParameterSpec& spec = sample.common().parameters[row];
    EXPECT_EQ(got[row]["name"], spec.name);
    EXPECT_EQ(got[row]["shape"], json(spec.shape));
    EXPECT_EQ(got[row]["dtype"], name_of(spec.dtype));
    EXPECT_EQ(got[row]["group"], spec.group);
    EXPECT_EQ(got[row]["trainable"], spec.trainable);
    EXPECT_EQ(got[row]["kind"], kinds[row]);
    EXPECT_EQ(got[row]["elements"], spec.numel());
    EXPECT_EQ(got[row]["applied_steps"], sample.common().applied_steps[row]);
  }
  EXPECT_EQ(got[5]["alias_of"], "embed.weight");
  EXPECT_EQ(got[0]["alias_of"], nullptr);
}

/// Whoever reads the bytes where a piece says they are finds the elements.
TEST_P(InspectGolden, PiecesLieWhereTheyAreSaidToLie) {
  const int world_size = GetParam();
  const std::string directory = step_directory(golden_root(), world_size);
  const Sample sample(world_size, world_size);
  const json got = zero_json({"inspect", directory});
  std::map<std::string, std::int64_t> elements;
  for (const json& rank : got["ranks"]) {
    for (const json& piece : rank["pieces"]) {
      std::int32_t row = 0;
      while (sample.common().parameters[static_cast<std::size_t>(row)].name != piece["parameter"]) {
        ++row;
      }
      const Extent extent{row, piece["begin"], piece["end"]};
      const std::string state = piece["state"];
      std::ifstream file(directory + "/" + rank["file"].get<std::string>(), std::ios::binary);
      file.seekg(piece["offset"].get<std::streamoff>());
      std::vector<std::byte> bytes(piece["bytes"].get<std::size_t>());
      file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      EXPECT_EQ(bytes, Sample::expected(world_size, state, dtype_of(piece["dtype"]), extent));
      elements[state] += extent.end - extent.begin;
    }
  }
  EXPECT_EQ(elements, (std::map<std::string, std::int64_t>{
                          {"master", 49}, {"exp_avg", 49}, {"exp_avg_sq", 49}, {"value", 27}}));
  EXPECT_EQ(got["states"]["master"], json({{"elements", 49}, {"bytes", 196}}));
}

INSTANTIATE_TEST_SUITE_P(Worlds, InspectGolden, ::testing::Values(1, 2, 3));

TEST(Inspect, OfARootShowsTheNewestStep) {
  EXPECT_EQ(zero_json({"inspect", golden_root()})["step"], 3);
}

TEST(Inspect, PrintsAlignedTablesOfBoundedWidth) {
  Folder folder;
  checkpoint::Sample sample(1, 2);
  sample.common().parameters[0].name = std::string(300, 'n');
  checkpoint::save(*checkpoint::make_hdf5_store(checkpoint::on_disk(), folder / "r"), sample);
  const Result result = zero({"inspect", folder / "r"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 130u) << line;
  EXPECT_THAT(result.out, AllOf(HasSubstr("n\xe2\x80\xa6n"), HasSubstr("frozen"),
                                HasSubstr("weight_decay 0.1"), HasSubstr("samples_seen 64"),
                                HasSubstr("schedule 33 B"), HasSubstr("shard-00001-of-00002.h5")));
}

/// Two ranks of three say what they hold.
std::string save_with_memory(const std::string& root, std::int64_t device) {
  checkpoint::Sample sample(1, 3);
  sample.rank(0).blobs["optimizer.memory"] = checkpoint::to_blob({1 << 20, device});
  sample.rank(2).blobs["optimizer.memory"] = checkpoint::to_blob({3 << 20, 2 * device});
  checkpoint::save(*checkpoint::make_hdf5_store(checkpoint::on_disk(), root), sample);
  return root;
}

TEST(Inspect, ShowsWhatRanksHeldOnTheHostAndOnTheirGpus) {
  Folder folder;
  const std::string root = save_with_memory(folder / "r", 5 << 20);
  const json got = zero_json({"inspect", root});
  EXPECT_EQ(got["ranks"][0]["memory"], json({{"host", 1 << 20}, {"device", 5 << 20}}));
  EXPECT_EQ(got["ranks"][1]["memory"], nullptr);
  EXPECT_EQ(got["totals"]["memory"], json({{"host", 4 << 20},
                                           {"device", 15 << 20},
                                           {"largest_host", 3 << 20},
                                           {"largest_device", 10 << 20}}));
  const std::string text = zero({"inspect", root}).out;
  EXPECT_THAT(
      text, AllOf(HasSubstr("on GPU"), HasSubstr("host memory"),
                  HasSubstr("3.0 MiB on the largest rank, 4.0 MiB in all"), HasSubstr("GPU memory"),
                  HasSubstr("10.0 MiB on the largest rank, 15.0 MiB in all")));
  EXPECT_THAT(text, Not(HasSubstr("optimizer.memory")));
}

TEST(Inspect, SpeaksOfNoGpuWhereThereIsNone) {
  Folder folder;
  const std::string text = zero({"inspect", save_with_memory(folder / "r", 0)}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("host memory"), Not(HasSubstr("GPU"))));
}

TEST(Inspect, SpeaksOfNoMemoryWhereTheCheckpointDoesNotSay) {
  EXPECT_THAT(zero({"inspect", golden_root()}).out, Not(HasSubstr("memory")));
  const json got = zero_json({"inspect", golden_root()});
  EXPECT_EQ(got["totals"]["memory"], nullptr);
  EXPECT_EQ(got["ranks"][0]["memory"], nullptr);
}

TEST(Inspect, MemoryThatNoRankCanHaveIsANo) {
  Folder folder;
  checkpoint::Sample sample(1, 2);
  sample.rank(1).blobs["optimizer.memory"] = checkpoint::Blob(7);
  checkpoint::save(*checkpoint::make_hdf5_store(checkpoint::on_disk(), folder / "r"), sample);
  expect_one_complaint(zero({"inspect", folder / "r"}), 1, "blob optimizer.memory of rank 1");
}

TEST(Inspect, OneParameterHasItsPlaces) {
  const json got = zero_json({"inspect", step_directory(golden_root(), 3), "--parameter", "mask"});
  EXPECT_EQ(got["step"], 3);
  EXPECT_EQ(got["parameter"]["kind"], "buffer");
  ASSERT_EQ(got["parameter"]["pieces"].size(), 3u);
  EXPECT_EQ(got["parameter"]["pieces"][0]["begin"], 0);
  EXPECT_EQ(got["parameter"]["pieces"][2]["end"], 17);
  EXPECT_EQ(got["parameter"]["pieces"][2]["file"], "shard-00002-of-00003.h5");
  const Result text = zero({"inspect", golden_root(), "--parameter", "mask"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("17 elements"), HasSubstr("offset"),
                              HasSubstr("shard-00002-of-00003.h5"), Not(HasSubstr("frozen"))));
}

TEST(Inspect, AnAliasLiesWhereItsOwnerLies) {
  const auto pieces = [](const char* name) {
    return zero_json({"inspect", golden_root(), "--parameter", name})["parameter"]["pieces"];
  };
  EXPECT_EQ(pieces("head.weight"), pieces("embed.weight"));
  EXPECT_EQ(pieces("head.weight").size(), 9u);
}

TEST(Inspect, AParameterThatIsNotThereIsANo) {
  expect_one_complaint(zero({"inspect", golden_root(), "--parameter", "nope"}), 1, "'nope'");
  expect_one_complaint(zero({"inspect", golden_root(), "--parameter", ""}), 2, "--parameter");
}

TEST(Inspect, ADamagedCheckpointIsANoAndNothingFallsBack) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  const std::string file = step_directory(root, 2) + "/common.h5";
  std::filesystem::resize_file(file, 100);
  expect_one_complaint(zero({"inspect", root}), 1, "common.h5");
  EXPECT_EQ(zero({"inspect", step_directory(root, 1)}).code, 0);
}

TEST(Inspect, ACheckpointUnderAnotherStepsNameIsANo) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  std::filesystem::rename(step_directory(root, 1), step_directory(root, 7));
  expect_one_complaint(zero({"inspect", root}), 1, "another step");
}

TEST(Inspect, NamesThatWouldRuleATerminalArePrintedHarmlessly) {
  Folder folder;
  checkpoint::Sample sample(1, 1);
  sample.common().parameters[0].name =
      "a\xc2\x9b"
      "31mred\xe2\x80\xaeleft";  // CSI, right-to-left
  checkpoint::save(*checkpoint::make_hdf5_store(checkpoint::on_disk(), folder / "r"), sample);
  const Result text = zero({"inspect", folder / "r"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("a\\u009b31mred\\u202eleft"), Not(HasSubstr("\xc2\x9b")),
                              Not(HasSubstr("\xe2\x80\xae"))));
  const Result raw = zero({"inspect", folder / "r", "--json"});
  EXPECT_TRUE(std::all_of(raw.out.begin(), raw.out.end(),
                          [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); }));
  EXPECT_EQ(json::parse(raw.out)["parameters"][0]["name"], sample.common().parameters[0].name);
}

}  // namespace
}  // namespace zero::cli::testing
