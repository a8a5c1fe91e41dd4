#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>

#include "checkpoint/hdf5_store.h"
#include "cli/unique_fd.h"
#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Reshard, GivesTheSameStateForAnotherWorld) {
  Folder folder;
  const std::string root = folder / "r";
  const json got = zero_json({"reshard", step_directory(golden_root(), 3), root, "--world", "2"});
  EXPECT_EQ(got["directory"], step_directory(root, 3));
  EXPECT_EQ(got["from_world_size"], 3);
  EXPECT_EQ(got["world_size"], 2);
  EXPECT_EQ(got["digests"].size(), 4u);
  EXPECT_EQ(zero({"verify", root}).code, 0);
  EXPECT_EQ(zero({"diff", root, golden_root()}).code, 0);
  const json inspected = zero_json({"inspect", root});
  EXPECT_EQ(inspected["world_size"], 2);
  EXPECT_THAT(inspected["writer"], HasSubstr("zero reshard"));
  EXPECT_NE(inspected["created"], "");
  EXPECT_EQ(inspected["surplus_rank_blobs"], json({{"2", {{"rng", 11}, {"sampler", 2}}}}));
  EXPECT_THAT(zero({"inspect", root}).out, HasSubstr("once rank 2"));
}

TEST(Reshard, TellsPeopleStateByState) {
  Folder folder;
  const Result result = zero({"reshard", golden_root(), folder / "r", "--world", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("3 ranks before, 1 now"), HasSubstr("exp_avg_sq")));
}

TEST(Reshard, ASecondTimeTheStepExists) {
  Folder folder;
  const std::string root = folder / "r";
  ASSERT_EQ(zero({"reshard", golden_root(), root, "--world", "2"}).code, 0);
  expect_one_complaint(zero({"reshard", golden_root(), root, "--world", "4"}), 2, "step 3");
  EXPECT_THAT(names_in(root), ElementsAre(".job.lock", ".lock", "LATEST", "step_000000000003"));
  EXPECT_EQ(zero_json({"inspect", root})["world_size"], 2);
}

TEST(Reshard, IntoARootWhereAJobLivesOrSavesIsRefusedAndFromOneWorks) {
  for (const std::string name : {"/.job.lock", "/.lock"}) {
    Folder folder;
    const std::string root = save_steps(folder / "r", {1});
    UniqueFd lock(::open((root + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
    expect_one_complaint(zero({"reshard", golden_root(), root, "--world", "2"}), 3, root);
    EXPECT_EQ(zero_json({"list", root})["steps"].size(), 1u) << name;
    EXPECT_EQ(zero({"reshard", root, folder / "to", "--world", "3"}).code, 0) << name;
    lock.reset();
    EXPECT_EQ(zero({"reshard", golden_root(), root, "--world", "2"}).code, 0) << name;
  }
}

TEST(Reshard, ADamagedSourceIsANoAndLeavesNothing) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  const json place = zero_json({"inspect", root, "--parameter", "embed.weight"});
  flip(step_directory(root, 1) + "/shard-00000-of-00002.h5",
       place["parameter"]["pieces"][0]["offset"]);
  expect_one_complaint(zero({"reshard", root, folder / "to", "--world", "3"}), 1,
                       "shard-00000-of-00002.h5");
  if (std::filesystem::exists(folder / "to")) {
    EXPECT_EQ(zero_json({"list", folder / "to"})["steps"], json::array());
    EXPECT_EQ(zero_json({"list", folder / "to"})["leftovers"], json::array());
  }
}

/// Where no dataset is: loading does not mind, but what is passed on must be whole.
TEST(Reshard, AByteOfTheCommonFileOutsideItsDatasetsIsFoundAsVerifyDoes) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  const std::string common = step_directory(root, 1) + "/common.h5";
  flip(common, 12);  // in the superblock
  EXPECT_EQ(zero({"inspect", root}).code, 0);
  EXPECT_EQ(zero({"verify", root}).code, 1);
  expect_one_complaint(zero({"reshard", root, folder / "to", "--world", "3"}), 1, "common.h5");
  EXPECT_FALSE(std::filesystem::exists(folder / "to"));
}

TEST(Reshard, ArgumentsAreChecked) {
  Folder folder;
  const std::string to = folder / "to";
  const auto reshard = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"reshard", golden_root(), to});
    return zero(std::move(options));
  };
  expect_one_complaint(zero({"reshard", golden_root(), "", "--world", "1"}), 2, "DST");
  expect_one_complaint(reshard({}), 2, "--world");
  expect_one_complaint(reshard({"--world", "0"}), 2, "--world");
  expect_one_complaint(reshard({"--world", "65537"}), 2, "--world");
  expect_one_complaint(reshard({"--world", "2", "--memory", "1K"}), 2, "1 MiB");
  for (const char* wrong : {"64X", "1.5M", "-1", "M", "", "99999999999999999999", "16E", "64 M"}) {
    expect_one_complaint(reshard({"--world", "2", "--memory", wrong}), 2, "is no size");
  }
  EXPECT_FALSE(std::filesystem::exists(to));
  for (const char* right : {"1048576", "2M", "2m", "3MiB", "1G"}) {
    EXPECT_EQ(reshard({"--world", "2", "--memory", right}).code, 0) << right;
    std::filesystem::remove_all(to);
  }
}

TEST(Reshard, IntoACheckpointsOwnDirectoryIsWrongUsage) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  const std::string inside = step_directory(root, 1);
  expect_one_complaint(zero({"reshard", golden_root(), inside, "--world", "1"}), 2, "the root");
  EXPECT_EQ(zero({"verify", root}).code, 0);
}

TEST(Reshard, TwoIntoOneRootLeaveOneWholeCheckpoint) {
  Folder folder;
  const std::string to = folder / "to";
  std::vector<std::unique_ptr<Launched>> all;
  for (const char* world : {"1", "2", "4"}) {
    all.push_back(std::make_unique<Launched>(
        std::vector<std::string>{ZERO_COMMAND, "reshard", golden_root(), to, "--world", world}));
  }
  int done = 0;
  for (const auto& each : all) {
    const int code = each->wait().code;
    EXPECT_TRUE(code == 0 || code == 2 || code == 3) << code;  // it is there, or being written
    done += code == 0 ? 1 : 0;
  }
  EXPECT_EQ(done, 1);
  EXPECT_EQ(zero({"verify", to}).code, 0);
  EXPECT_EQ(zero_json({"list", to})["leftovers"], json::array());
}

TEST(Diff, OfACheckpointWithItselfIsEmpty) {
  const json got = zero_json({"diff", golden_root(), step_directory(golden_root(), 3)});
  EXPECT_EQ(got["equal"], true);
  EXPECT_EQ(got["differences"], json::array());
  const Result text = zero({"diff", golden_root(), golden_root()});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("hold the same training state"));
}

TEST(Diff, OfTwoStepsIsANoThatNamesWhatDiffers) {
  const std::string a = step_directory(golden_root(), 1), b = step_directory(golden_root(), 2);
  const json got = zero_json({"diff", a, b}, 1);
  EXPECT_EQ(got["a"], a);
  EXPECT_EQ(got["b"], b);
  EXPECT_EQ(got["equal"], false);
  std::set<std::string> subjects;
  for (const json& each : got["differences"]) {
    subjects.insert(each["subject"]);
    EXPECT_TRUE(each["problem"].is_string());
    EXPECT_TRUE(each["elements"].is_number_integer());
    EXPECT_TRUE(each.contains("largest_difference"));
  }
  EXPECT_THAT(subjects, AllOf(::testing::Contains(HasSubstr("embed.weight")),
                              ::testing::Contains(HasSubstr("samples_seen")),
                              ::testing::Contains(HasSubstr("lr"))));
  const Result text = zero({"diff", a, b});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("embed.weight"), HasSubstr("differ: ")));
}

TEST(Diff, OfADamagedOneIsANo) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {3}, 3);
  ASSERT_EQ(zero({"diff", root, golden_root()}).code, 0);
  std::filesystem::resize_file(step_directory(root, 3) + "/common.h5", 7);
  expect_one_complaint(zero({"diff", golden_root(), root}), 1, "common.h5");
}

TEST(Version, NamesTheLibrariesOfCheckpoints) {
  const Result result = zero({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\nHDF5 1."), HasSubstr("\nxxHash 0.")));
}

TEST(Export, WritesWholeParametersAndOverwritesNothing) {
  Folder folder;
  const std::string out = folder / "model.safetensors";
  const json got = zero_json({"export", golden_root(), out});
  EXPECT_EQ(got["files"], json({out}));
  EXPECT_EQ(got["aliases"], json({"head.weight"}));
  EXPECT_EQ(got["directory"], step_directory(golden_root(), 3));
  std::ifstream file(out, std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  EXPECT_EQ(json::parse(header)["embed.weight"]["shape"], json({7, 5}));
  const auto before = std::filesystem::last_write_time(out);
  expect_one_complaint(zero({"export", golden_root(), out}), 2, out);
  EXPECT_EQ(std::filesystem::last_write_time(out), before);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("model.safetensors"));
}

TEST(Export, TakesFormatDtypeAndLargestFile) {
  Folder folder;
  EXPECT_EQ(zero({"export", golden_root(), folder / "m.h5", "--format", "h5"}).code, 0);
  std::ifstream file(folder / "m.h5", std::ios::binary);
  std::string magic(4, ' ');
  file.read(magic.data(), 4);
  EXPECT_EQ(magic, "\x89HDF");
  const json wide = zero_json({"export", golden_root(), folder / "w.safetensors"});
  const json narrow =
      zero_json({"export", golden_root(), folder / "n.safetensors", "--dtype", "bf16"});
  EXPECT_LT(narrow["bytes"], wide["bytes"]);
  const json cut =
      zero_json({"export", golden_root(), folder / "c.safetensors", "--max-shard", "100"});
  EXPECT_GT(cut["files"].size(), 2u);
  for (const json& name : cut["files"]) EXPECT_TRUE(std::filesystem::exists(name)) << name;
}

/// What one export holds: its header, and its data behind it.
std::pair<json, std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  return {json::parse(header),
          {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
}

/// Two ranks' shares of one parameter: its elements count from 0, their average from 100.
std::string save_averaged(const std::string& root) {
  checkpoint::CommonState common;
  common.parameters = {{"w", {6}, DType::kFloat32, 0, true, -1}};
  common.groups = {{{"lr", 0.5}}};
  const std::vector<float> masters = {0, 1, 2, 3, 4, 5};
  const std::vector<float> averages = {100, 101, 102, 103, 104, 105};
  const auto store = checkpoint::make_hdf5_store(checkpoint::on_disk(), root);
  const auto writer = store->begin(common, 2);
  for (const int rank : {0, 1}) {
    const auto share = [rank](const std::vector<float>& values) {
      return std::as_bytes(std::span(values).subspan(rank == 0 ? 0 : 4, rank == 0 ? 4 : 2));
    };
    const std::vector<Extent> extents = {rank == 0 ? Extent{0, 0, 4} : Extent{0, 4, 6}};
    checkpoint::RankState state;
    state.states = {{"master", DType::kFloat32, extents, {share(masters)}},
                    {"ema", DType::kFloat32, extents, {share(averages)}}};
    writer->put(rank, state);
  }
  writer->commit();
  return root;
}

TEST(Export, OfTheAverageHasItsBytesInsteadOfTheMasters) {
  Folder folder;
  const std::string root = save_averaged(folder / "r");
  const auto floats = [&](std::vector<std::string> options) {
    const std::string out = folder / "m.safetensors";
    options.insert(options.begin(), {"export", root, out});
    EXPECT_EQ(zero_json(options)["weights"], options.size() > 3 ? "ema" : "master");
    const auto [header, data] = content_of(out);
    std::filesystem::remove(out);
    EXPECT_EQ(header["__metadata__"].value("libzero.weights", ""), options.size() > 3 ? "ema" : "");
    std::vector<float> values(6);
    EXPECT_EQ(data.size(), sizeof(float) * values.size());
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  };
  EXPECT_THAT(floats({}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(floats({"--ema"}), ElementsAre(100, 101, 102, 103, 104, 105));
  EXPECT_EQ(zero({"export", root, folder / "m.h5", "--ema"}).code, 0);
}

TEST(Export, OfAnAverageThatIsNotInTheCheckpointIsANo) {
  Folder folder;
  expect_one_complaint(zero({"export", golden_root(), folder / "m.safetensors", "--ema"}), 1,
                       "no average of the weights");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(Export, TheNameSaysTheFormatAndTheAnswerDoes) {
  Folder folder;
  const auto begins_as_hdf5 = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string magic(4, ' ');
    file.read(magic.data(), 4);
    return magic == "\x89HDF";
  };
  for (const std::string name : {"m.h5", "m.hdf5", "m.safetensors", "m.bin"}) {
    const bool is_hdf5 = name == "m.h5" || name == "m.hdf5";
    EXPECT_EQ(zero_json({"export", golden_root(), folder / name})["format"],
              is_hdf5 ? "h5" : "safetensors");
    EXPECT_EQ(begins_as_hdf5(folder / name), is_hdf5) << name;
  }
  EXPECT_THAT(zero({"export", golden_root(), folder / "text.h5"}).out, HasSubstr("1 file, h5"));
  EXPECT_EQ(zero({"export", golden_root(), folder / "m", "--format", "h5"}).code, 0);
  EXPECT_TRUE(begins_as_hdf5(folder / "m"));
}

TEST(Export, AFormatThatTheNameContradictsIsRefused) {
  Folder folder;
  expect_one_complaint(zero({"export", golden_root(), folder / "m.h5", "--format", "safetensors"}),
                       2, "m.h5");
  expect_one_complaint(zero({"export", golden_root(), folder / "m.safetensors", "--format", "h5"}),
                       2, "--format");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(Export, OverAFileOrAFolderSaysWhatToDoAboutIt) {
  Folder folder;
  const std::string file = folder / "file";
  std::ofstream(file) << "x";
  expect_one_complaint(zero({"export", golden_root(), file}), 2, "remove the file or choose");
  expect_one_complaint(zero({"export", golden_root(), folder.path()}), 2, "name a new file, in it");
  expect_one_complaint(zero({"export", file, folder / "out"}), 3, "this is no directory");
}

TEST(Export, ArgumentsAreChecked) {
  Folder folder;
  const std::string out = folder / "m.safetensors";
  expect_one_complaint(zero({"export", golden_root()}), 2, "OUT");
  expect_one_complaint(zero({"export", golden_root(), ""}), 2, "OUT");
  expect_one_complaint(zero({"export", golden_root(), out, "--format", "zip"}), 2, "--format");
  expect_one_complaint(zero({"export", golden_root(), out, "--dtype", "f64"}), 2, "--dtype");
  expect_one_complaint(zero({"export", golden_root(), out, "--max-shard", "5Q"}), 2, "is no size");
  expect_one_complaint(zero({"export", golden_root(), folder / "no/m.safetensors"}), 3, "/no");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace zero::cli::testing
