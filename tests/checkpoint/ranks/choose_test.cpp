// Which checkpoint a run resumes from, on disks in all states.

#include "checkpoint/ranks/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/names.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fault;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kStep10 = kRoot + "/step_000000000010";
const std::string kStep20 = kRoot + "/step_000000000020";
const std::string kStep30 = kRoot + "/step_000000000030";

class Choose : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {10, 20, 30}) save(*world_.store(), step, 2);
  }

  /// What all three ranks hear, which must be the same.
  Candidates find(bool fall_back, const std::string& from = kRoot) {
    std::vector<Candidates> found(3);
    const auto errors = zero::testing::run_ranks(
        make_threads(3, std::chrono::seconds(20)), [&](const std::shared_ptr<Collective>& comm) {
          const int rank = comm->rank();
          // Only rank 0's disk counts: the others look nowhere.
          found[static_cast<std::size_t>(rank)] = find_candidates(
              world_.files(rank), rank == 0 ? from : "/elsewhere", fall_back, *comm);
          comm->shutdown();
        });
    Ending ending{std::vector<SaveOutcome>(3), errors};
    if (errors[0]) {
      EXPECT_NE(ending.common_error(), "");
      std::rethrow_exception(errors[0]);
    }
    for (const Candidates& other : found) {
      EXPECT_EQ(other.directories, found[0].directories);
      EXPECT_EQ(other.warnings, found[0].warnings);
    }
    EXPECT_THAT(world_.files(1).calls(), IsEmpty());
    return found[0];
  }

  template <class Type>
  std::string error_of(bool fall_back, const std::string& from = kRoot) {
    try {
      find(fall_back, from);
    } catch (const Type& error) {
      return error.what();
    }
    return "no such error";
  }

  void remove(const std::string& path) { world_.disk().unlink(path); }
  void write(const std::string& path, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    world_.disk().set_content(path, {bytes.begin(), bytes.end()});
  }

  World world_{Flavour::kHdf5, 3};
};

TEST_F(Choose, TheNewestOfARoot) {
  for (const char* from : {"/checkpoints", "/checkpoints/"}) {
    const Candidates found = find(false, from);
    ASSERT_EQ(found.directories.size(), 1u);
    EXPECT_THAT(found.directories[0], HasSubstr("step_000000000030"));
    EXPECT_THAT(found.warnings, IsEmpty());
  }
}

TEST_F(Choose, TheOlderOnesFollowIfAskedFor) {
  EXPECT_THAT(find(true).directories, ElementsAre(kStep30, kStep20, kStep10));
}

TEST_F(Choose, ADirectoryByItsName) {
  EXPECT_THAT(find(false, kStep10).directories, ElementsAre(kStep10));
  EXPECT_THAT(find(true, kStep10 + "/").directories, ElementsAre(kStep10 + "/"));
  world_.disk().rename_new(kStep10, "/a copy [x]");
  EXPECT_THAT(find(false, "/a copy [x]").directories, ElementsAre("/a copy [x]"));
}

TEST_F(Choose, NothingInAnEmptyOrMissingRoot) {
  world_.disk().make_directory("/empty");
  for (const char* from : {"/empty", "/missing", "/missing/too"}) {
    for (const bool fall_back : {false, true}) {
      EXPECT_THAT(find(fall_back, from).directories, IsEmpty());
    }
  }
}

TEST_F(Choose, NothingWhereOnlyLeftoversOfCrashesAre) {
  world_.disk().make_directory("/runs");
  world_.disk().make_directory("/runs/.tmp-step_000000000001-0123456789abcdef");
  write("/runs/.lock", "");
  EXPECT_THAT(find(false, "/runs").directories, IsEmpty());
}

TEST_F(Choose, AStaleHintCountsForNothing) {
  write(kRoot + "/LATEST", "step_000000000010\n");
  const Candidates found = find(false);
  EXPECT_THAT(found.directories, ElementsAre(kStep30));
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(Choose, AMissingEmptyOrDanglingHintIsAWarning) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "names no checkpoint"},
      {"..", "names no checkpoint"},
      {"step_10", "names no checkpoint"},
      {".tmp-step_000000000040-0123456789abcdef\n", "names no checkpoint"},
      {std::string(1 << 20, 'x'), "names no checkpoint"},
      {"step_000000000040\n", "names step_000000000040, which is not there"}};
  for (const auto& [text, words] : cases) {
    write(kRoot + "/LATEST", text);
    const Candidates found = find(false);
    EXPECT_THAT(found.directories, ElementsAre(kStep30));
    EXPECT_THAT(found.warnings, ElementsAre(HasSubstr(words)));
  }
  remove(kRoot + "/LATEST");
  EXPECT_THAT(find(false).warnings, ElementsAre(HasSubstr("LATEST: is missing")));
  world_.disk().make_directory(kRoot + "/LATEST");
  EXPECT_THAT(find(false).warnings, ElementsAre(HasSubstr("names no checkpoint")));
}

TEST_F(Choose, ADamagedNewestIsRefusedOrPassedOverWithAWarning) {
  std::map<std::string, std::vector<std::byte>> whole;
  for (const std::string& name : world_.disk().list(kStep30)) {
    whole[kStep30 + "/" + name] = world_.disk().content(kStep30 + "/" + name);
  }
  const std::string shard = kStep30 + "/shard-00001-of-00002.h5";
  const std::pair<std::string, std::function<void()>> damages[] = {
      {"manifest is missing", [&] { remove(kStep30 + "/MANIFEST.json"); }},
      {"manifest",
       [&] {
         auto bytes = whole.at(kStep30 + "/MANIFEST.json");
         bytes[bytes.size() / 2] ^= std::byte{1};
         world_.disk().set_content(kStep30 + "/MANIFEST.json", bytes);
       }},
      {"instead of",
       [&] {
         auto bytes = whole.at(shard);
         bytes.pop_back();
         world_.disk().set_content(shard, bytes);
       }},
      {"instead of", [&] { world_.disk().set_content(shard, {}); }},
      {"another step",
       [&] {
         for (const char* name : {"MANIFEST.json", "common.h5", "shard-00000-of-00002.h5",
                                  "shard-00001-of-00002.h5"}) {
           world_.disk().set_content(kStep30 + "/" + name,
                                     world_.disk().content(kStep20 + "/" + name));
         }
       }},
      {"is missing", [&] { remove(shard); }}};
  for (const auto& [words, damage] : damages) {
    damage();
    EXPECT_THAT(error_of<FormatError>(false), AllOf(HasSubstr(words), HasSubstr(kStep30)));
    EXPECT_THAT(error_of<FormatError>(true, kStep30), HasSubstr(words));
    const Candidates found = find(true);
    EXPECT_THAT(found.directories, ElementsAre(kStep20, kStep10));
    EXPECT_THAT(found.warnings,
                ElementsAre(AllOf(HasSubstr("step_000000000030: "), HasSubstr(words))));
    for (const auto& [path, bytes] : whole) world_.disk().set_content(path, bytes);
  }
}

TEST_F(Choose, DamageBehindTheNewestDoesNotMatterUnlessFallingBack) {
  remove(kStep20 + "/MANIFEST.json");
  EXPECT_THAT(find(false).directories, ElementsAre(kStep30));
  EXPECT_THAT(find(false).warnings, IsEmpty());
  EXPECT_THAT(find(true).directories, ElementsAre(kStep30, kStep10));
  EXPECT_THAT(find(true).warnings, ElementsAre(HasSubstr("step_000000000020: ")));
}

TEST_F(Choose, ARootWithoutAnyWholeCheckpointIsNotTakenForAnEmptyOne) {
  for (const auto& step : {kStep10, kStep20, kStep30}) remove(step + "/MANIFEST.json");
  EXPECT_THAT(error_of<FormatError>(true),
              AllOf(HasSubstr("no checkpoint of this root is whole"), HasSubstr(kRoot)));
  EXPECT_THAT(error_of<FormatError>(false), HasSubstr(kStep30));
}

TEST_F(Choose, EveryCheckpointThatIsNotWholeIsNamedWithItsReasonUpToFive) {
  for (const auto& step : {kStep10, kStep20}) remove(step + "/MANIFEST.json");
  remove(kStep30 + "/common.h5");
  EXPECT_THAT(
      error_of<FormatError>(true),
      AllOf(HasSubstr("step_000000000030: a file is missing"),
            HasSubstr("; step_000000000020: the manifest is missing"),
            HasSubstr("; step_000000000010: the manifest is missing"), Not(HasSubstr("more"))));
  for (const std::int64_t step : {40, 50, 60, 70}) {
    world_.disk().make_directory(kRoot + "/" + step_name(step));
  }
  EXPECT_THAT(error_of<FormatError>(true),
              AllOf(HasSubstr("step_000000000070"), HasSubstr("step_000000000030"),
                    Not(HasSubstr("step_000000000020")), HasSubstr("; and 2 more")));
}

TEST_F(Choose, WhatIsLeftOfACheckpointIsNotTakenForAnEmptyRoot) {
  remove(kStep30 + "/MANIFEST.json");
  world_.disk().make_directory(kRoot + "/step_000000000040");
  world_.disk().rename_new(kStep30, "/moved");
  for (const std::string& from : {std::string("/moved"), kRoot + "/step_000000000040"}) {
    for (const bool fall_back : {false, true}) {
      EXPECT_THAT(error_of<FormatError>(fall_back, from), HasSubstr("manifest is missing"));
    }
  }
}

TEST_F(Choose, WhatRankZeroCannotSeeIsAnErrorOnAll) {
  world_.files(0).set_fault(Fault{"list", 1, EACCES, true});
  EXPECT_THAT(error_of<IoError>(true), AllOf(HasSubstr("errno 13"), HasSubstr(kRoot)));
  world_.files(0).set_fault(Fault{"open", 1, EIO, true});
  EXPECT_THAT(error_of<IoError>(false), AllOf(HasSubstr("errno 5"), HasSubstr(kStep30)));
  write("/file", "");
  EXPECT_THAT(error_of<IoError>(false, "/file"), HasSubstr("/file"));
}

TEST_F(Choose, WhatCannotBeReadIsNotPassedOverWhenFallingBack) {
  for (const bool fall_back : {false, true}) {
    world_.restart();
    world_.files(0).set_fault(Fault{"open", 1, EIO, false});
    EXPECT_THAT(error_of<IoError>(fall_back), AllOf(HasSubstr(kStep30), HasSubstr("errno 5")));
    EXPECT_THAT(find(fall_back).directories[0], kStep30) << "the disk reads again";
  }
}

}  // namespace
}  // namespace zero::checkpoint
