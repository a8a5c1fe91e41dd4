#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Verify, GoldenCheckpointsAreWhole) {
  for (const int step : {1, 2, 3}) {
    const Result result = zero({"verify", step_directory(golden_root(), step)});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("whole"));
    EXPECT_EQ(result.err, "");
  }
}

/// In every file: the ends, and places all over it.
TEST(Verify, AFlippedByteAnywhereIsFoundAndItsFileNamed) {
  Folder folder;
  const std::string directory = step_directory(save_steps(folder / "r", {1}), 1);
  for (const std::string& name : names_in(directory)) {
    const std::string file = directory + "/" + name;
    const std::uintmax_t size = std::filesystem::file_size(file);
    for (std::uintmax_t part = 0; part <= 8; ++part) {
      const std::uintmax_t offset = (size - 1) * part / 8;
      flip(file, offset);
      const Result result = zero({"verify", directory});
      EXPECT_EQ(result.code, 1) << name << " at " << offset << ": " << result.err;
      EXPECT_THAT(result.out, HasSubstr(name)) << offset;
      flip(file, offset);
    }
  }
  EXPECT_EQ(zero({"verify", directory}).code, 0);
}

TEST(Verify, NamesFileDatasetAndBlock) {
  Folder folder;
  const std::string directory = step_directory(save_steps(folder / "r", {1}, 1), 1);
  const json place = zero_json({"inspect", directory, "--parameter", "embed.weight"});
  const json& piece = place["parameter"]["pieces"][2];
  ASSERT_EQ(piece["state"], "master");
  const std::uintmax_t offset = piece["offset"];
  flip(directory + "/shard-00000-of-00001.h5", offset + 130);  // blocks have 64 bytes here
  const json got = zero_json({"verify", directory}, 1);
  EXPECT_EQ(got["whole"], false);
  ASSERT_EQ(got["findings"].size(), 1u);
  EXPECT_EQ(got["findings"][0]["file"], "shard-00000-of-00001.h5");
  EXPECT_EQ(got["findings"][0]["dataset"], "/states/master/float32/data");
  EXPECT_EQ(got["findings"][0]["block"], 2);
  EXPECT_THAT(zero({"verify", directory}).out,
              HasSubstr("shard-00000-of-00001.h5, /states/master/float32/data, block 2: "));
  EXPECT_EQ(zero_json({"verify", directory, "--quick"})["whole"], true) << "data are not read";
}

TEST(Verify, FilesThatAreMissingCutOrTooManyAreNamed) {
  Folder folder;
  const auto fresh = [&](std::int64_t step) {
    return step_directory(save_steps(folder / "r", {step}), step);
  };
  for (const char* option : {"--quick", "--json"}) {
    const std::int64_t base = option == std::string("--quick") ? 0 : 10;
    std::string directory = fresh(base + 1);
    std::filesystem::remove(directory + "/shard-00001-of-00002.h5");
    Result result = zero({"verify", directory, option});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, HasSubstr("shard-00001-of-00002.h5"));
    directory = fresh(base + 2);
    std::filesystem::resize_file(directory + "/common.h5", 10);
    result = zero({"verify", directory, option});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, HasSubstr("common.h5"));
    directory = fresh(base + 3);
    std::ofstream(directory + "/notes.txt") << "mine";
    result = zero({"verify", directory, option});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, HasSubstr("notes.txt"));
    directory = fresh(base + 4);
    std::filesystem::remove(directory + "/MANIFEST.json");
    result = zero({"verify", directory, option});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, HasSubstr("MANIFEST.json"));
  }
}

/// What somebody could make who knows the format: all hashes are right, the HDF5 structure is not.
TEST(Verify, FilesFromStrangersNeverReachTheHdf5Library) {
  Folder folder;
  const std::string directory = step_directory(save_steps(folder / "r", {1}), 1);
  flip(directory + "/common.h5", 0);  // the signature: HDF5 does not open it
  set_hashes(directory);
  const Result looked = zero({"verify", directory});
  EXPECT_EQ(looked.code, 1);
  EXPECT_THAT(looked.out, AllOf(HasSubstr("common.h5"), HasSubstr("HDF5 structure")));
  EXPECT_EQ(zero_json({"verify", directory}, 1)["untrusted"], false);
  const Result untrusted = zero({"verify", directory, "--untrusted"});
  EXPECT_EQ(untrusted.code, 0) << untrusted.out;
  EXPECT_THAT(untrusted.out, HasSubstr("the HDF5 structure was not looked at"));
  EXPECT_EQ(zero_json({"verify", directory, "--untrusted"})["untrusted"], true);
  flip(directory + "/shard-00000-of-00002.h5", 600);
  EXPECT_EQ(zero({"verify", directory, "--untrusted"}).code, 1) << "all else is checked";
}

TEST(Verify, OfARootTakesTheNewestEvenIfItIsDamaged) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  EXPECT_EQ(zero_json({"verify", root})["directory"], step_directory(root, 2));
  std::filesystem::remove(step_directory(root, 2) + "/MANIFEST.json");
  EXPECT_EQ(zero_json({"verify", root}, 1)["directory"], step_directory(root, 2));
}

TEST(Verify, DrawsAProgressBarOnATerminalAndTakesItAway) {
  Launched launched({ZERO_COMMAND, "verify", golden_root()}, {{"TERM", "xterm"}},
                    Streams::kTerminal);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\r\033[Kverify "), HasSubstr("%"),
                                HasSubstr("\r\033[K" + golden_root())));
  Launched dumb({ZERO_COMMAND, "verify", golden_root()}, {{"TERM", "dumb"}}, Streams::kTerminal);
  EXPECT_THAT(dumb.wait().out, Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace zero::cli::testing
