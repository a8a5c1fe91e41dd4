// A save is stopped at every one of its calls of the file system, by death, power cut and errors of
// all kinds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

using testing::Fault;
using testing::FaultyFileSystem;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using testing::PowerCut;
using testing::SimulatedCrash;

constexpr std::int64_t kOld = 1, kNew = 2;
const std::string kRoot = "/checkpoints";

/// What a save did until it was stopped.
enum class Outcome { kSaved, kFailed, kUnknown, kDied };

struct Trial {
  std::shared_ptr<MemoryFileSystem> disk = std::make_shared<MemoryFileSystem>();
  std::shared_ptr<FaultyFileSystem> files = std::make_shared<FaultyFileSystem>(disk);
  Outcome outcome = Outcome::kSaved;
  std::vector<std::string> warnings;
  std::string error;
};

std::unique_ptr<Store> store_on(std::shared_ptr<FileSystem> files) {
  return make_hdf5_store(std::move(files), kRoot);
}

/// One whole old checkpoint; then a save of a new one with the fault.
Trial save_with(std::optional<Fault> fault, bool files_lie = false, bool directories_lie = false) {
  Trial run;
  save(*store_on(run.disk), kOld, 2);
  if (fault) run.files->set_fault(*fault);
  run.files->set_lying_fsync(files_lie, directories_lie);
  try {
    run.warnings = save(*store_on(run.files), kNew, 2).warnings;
  } catch (const SimulatedCrash&) {
    run.outcome = Outcome::kDied;
  } catch (const CommitUnknown& error) {
    run.outcome = Outcome::kUnknown;
    run.error = error.what();
  } catch (const IoError& error) {
    run.outcome = Outcome::kFailed;
    run.error = error.what();
  }
  return run;
}

/// Empty if the old checkpoint is whole, the new one is whole or absent, and nothing else has a
/// final name.
std::string violation(MemoryFileSystem& disk, std::shared_ptr<FileSystem> files, bool& has_new) {
  const auto store = store_on(std::move(files));
  const Listing listing = store->list();
  if (!listing.damaged.empty()) return "torn: " + listing.damaged[0].problem;
  has_new = listing.steps.size() == 2;
  if (listing.steps.empty() || listing.steps[0].step != kOld) return "the old one is gone";
  for (const StepInfo& info : listing.steps) {
    const std::string folder = kRoot + "/step_00000000000" + std::to_string(info.step);
    for (const Finding& finding : verify(disk, folder).findings) return to_text(finding);
    const std::string found = difference(*store->open(info.step), info.step, 2);
    if (!found.empty()) return "another content: " + found;
  }
  return {};
}

/// Life goes on: the next save works and leaves nothing but checkpoints behind.
void expect_next_save_cleans(MemoryFileSystem& disk, std::shared_ptr<FileSystem> files) {
  EXPECT_THAT(save(*store_on(files), 3, 2).warnings, IsEmpty());
  for (const std::string& name : disk.list(kRoot)) {
    EXPECT_TRUE(name.starts_with("step_") || name == "LATEST" || name == ".lock") << name;
  }
  const auto latest = disk.content(kRoot + "/LATEST");
  const std::string text(reinterpret_cast<const char*>(latest.data()), latest.size());
  EXPECT_EQ(text, "step_000000000003\n");
}

int count_of_calls(const std::string& operation) {
  return save_with(std::nullopt).files->calls()[operation];
}

class DeathAtEveryCall : public ::testing::TestWithParam<PowerCut> {};

TEST_P(DeathAtEveryCall, LeavesTheOldCheckpointAndTheNewOneWholeOrAbsent) {
  const int calls = count_of_calls("");
  ASSERT_GT(calls, 50);
  int with_new = 0;
  for (int at = 1; at <= calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    Trial run = save_with(Fault{"", at});
    ASSERT_TRUE(run.files->struck());
    ASSERT_EQ(run.outcome, Outcome::kDied);
    run.disk->crash(GetParam());
    bool has_new = false;
    ASSERT_EQ(violation(*run.disk, run.disk, has_new), "");
    with_new += has_new;
    expect_next_save_cleans(*run.disk, run.disk);
  }
  EXPECT_GT(with_new, 0);
  EXPECT_LT(with_new, calls);
}

TEST_P(DeathAtEveryCall, ASaveThatReturnedSurvivesTheNextPowerCut) {
  Trial run = save_with(std::nullopt);
  ASSERT_EQ(run.outcome, Outcome::kSaved);
  run.disk->crash(GetParam());
  bool has_new = false;
  EXPECT_EQ(violation(*run.disk, run.disk, has_new), "");
  EXPECT_TRUE(has_new);
}

INSTANTIATE_TEST_SUITE_P(PowerCuts, DeathAtEveryCall,
                         ::testing::Values(PowerCut::kEverything, PowerCut::kEntries,
                                           PowerCut::kNothing),
                         [](const auto& each) {
                           return each.param == PowerCut::kEverything ? "ProcessKilled"
                                  : each.param == PowerCut::kEntries  ? "NamesSurvive"
                                                                      : "NothingSurvives";
                         });

// The tests of the tests: with an fsync that lies, the very same checks must find damage.

TEST(LyingFsync, OfFilesIsFoundAsATornCheckpoint) {
  int torn = 0;
  const int calls = count_of_calls("");
  for (int at = 1; at <= calls; ++at) {
    Trial run = save_with(Fault{"", at}, true, false);
    run.disk->crash(PowerCut::kEntries);
    bool has_new = false;
    torn += !violation(*run.disk, run.disk, has_new).empty();
  }
  EXPECT_GT(torn, 0);
}

TEST(LyingFsync, OfDirectoriesIsFoundAsALostOrTornCheckpoint) {
  Trial run = save_with(std::nullopt, false, true);
  ASSERT_EQ(run.outcome, Outcome::kSaved);
  run.disk->crash(PowerCut::kNothing);
  bool has_new = false;
  EXPECT_TRUE(!violation(*run.disk, run.disk, has_new).empty() || !has_new);
}

struct ErrorCase {
  int code;
  bool persistent;
};

class ErrorAtEveryCall : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ErrorAtEveryCall, IsReportedWithItsPlaceAndTheProcessGoesOn) {
  const std::map<std::string, int> calls = save_with(std::nullopt).files->calls();
  int points = 0;
  for (const auto& [operation, count] : calls) {
    for (int at = 1; at <= count; ++at) {
      SCOPED_TRACE(operation + " " + std::to_string(at));
      ++points;
      Trial run = save_with(Fault{operation, at, GetParam().code, GetParam().persistent});
      ASSERT_TRUE(run.files->struck());
      ASSERT_TRUE(run.outcome != Outcome::kSaved || !run.warnings.empty() || operation.empty());
      const std::string said = run.warnings.empty() ? run.error : run.warnings[0];
      EXPECT_NE(said.find("errno " + std::to_string(GetParam().code)), std::string::npos) << said;
      EXPECT_NE(said.find(kRoot), std::string::npos) << said;
      run.files->set_fault(Fault{"never", 1});
      bool has_new = false;
      ASSERT_EQ(violation(*run.disk, run.files, has_new), "");
      EXPECT_EQ(has_new, run.outcome == Outcome::kSaved || run.outcome == Outcome::kUnknown);
      expect_next_save_cleans(*run.disk, run.files);
    }
  }
  EXPECT_GT(points, 100);
}

INSTANTIATE_TEST_SUITE_P(Errors, ErrorAtEveryCall,
                         ::testing::Values(ErrorCase{ENOSPC, false}, ErrorCase{ENOSPC, true},
                                           ErrorCase{EIO, false}, ErrorCase{EIO, true}),
                         [](const auto& each) {
                           return std::string(each.param.code == EIO ? "Eio" : "Enospc") +
                                  (each.param.persistent ? "FromThenOn" : "Once");
                         });

TEST(InterruptedTransfers, AreTriedAgain) {
  for (const char* operation : {"pwrite", "pread"}) {
    const int count = count_of_calls(operation);
    for (int at = 1; at <= count; ++at) {
      Trial run = save_with(Fault{operation, at, EINTR});
      EXPECT_TRUE(run.files->struck());
      EXPECT_EQ(run.outcome, Outcome::kSaved) << run.error;
    }
  }
}

TEST(InterruptedTransfers, AreNotTriedForEver) {
  for (const char* operation : {"pwrite", "pread"}) {
    Trial run = save_with(Fault{operation, 1, EINTR, true});
    EXPECT_EQ(run.outcome, Outcome::kFailed);
    EXPECT_NE(run.error.find("errno 4"), std::string::npos) << run.error;
    EXPECT_EQ(run.files->calls()[operation], kMaxInterruptions + 1);
  }
}

TEST(FullDisk, IsReportedBeforeAnythingIsWritten) {
  Trial run;
  save(*store_on(run.disk), kOld, 1);
  run.disk->set_free_bytes(1000);
  try {
    save(*store_on(run.files), kNew, 1);
    FAIL() << "a save without room succeeded";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ENOSPC);
  }
  EXPECT_EQ(run.files->calls()["pwrite"], 0);
  run.disk->set_free_bytes(1 << 30);
  EXPECT_NO_THROW(save(*store_on(run.files), kNew, 1));
}

/// Promises room that there is not, as a disk does that others fill, too.
class OptimisticFileSystem : public MemoryFileSystem {
 public:
  std::uint64_t free_bytes(const std::string&) override { return std::uint64_t{1} << 40; }
};

TEST(FullDisk, AtAnyByteLeavesTheOldCheckpoint) {
  for (std::uint64_t room = 0; room < 40000; room += 997) {
    Trial run;
    run.disk = std::make_shared<OptimisticFileSystem>();
    save(*store_on(run.disk), kOld, 2);
    run.disk->set_free_bytes(room);
    bool saved = true;
    try {
      save(*store_on(run.disk), kNew, 2);
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ENOSPC);
      saved = false;
    }
    bool has_new = false;
    ASSERT_EQ(violation(*run.disk, run.disk, has_new), "");
    ASSERT_EQ(has_new, saved);
  }
}

TEST(FirstSave, MakesARootThatSurvivesAPowerCut) {
  auto disk = std::make_shared<MemoryFileSystem>();
  disk->crash(PowerCut::kNothing);
  save(*store_on(disk), kOld, 2);
  disk->crash(PowerCut::kNothing);
  bool has_new = false;
  EXPECT_EQ(violation(*disk, disk, has_new), "");
  EXPECT_NO_THROW(save(*store_on(disk), kNew, 2));
}

TEST(FirstSave, NeedsAParentAndADirectory) {
  auto disk = std::make_shared<MemoryFileSystem>();
  EXPECT_THROW(save(*make_hdf5_store(disk, "/a/b/c"), kOld, 1), FileError);
  disk->set_content("/file", {});
  EXPECT_THROW(save(*make_hdf5_store(disk, "/file"), kOld, 1), ContractError);
  EXPECT_EQ(make_hdf5_store(disk, "/nowhere")->list().steps.size(), 0u);
}

TEST(Latest, ThatCannotBeWrittenIsAWarningOnly) {
  auto disk = std::make_shared<MemoryFileSystem>();
  save(*store_on(disk), kOld, 1);
  disk->make_directory(kRoot + "/LATEST.tmp");
  const CommitResult result = save(*store_on(disk), kNew, 1);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("LATEST"), std::string::npos);
  disk->crash(PowerCut::kNothing);
  EXPECT_EQ(store_on(disk)->list().steps.size(), 2u);
}

TEST(Leftovers, ThatAreNotLibzerosStay) {
  auto disk = std::make_shared<MemoryFileSystem>();
  save(*store_on(disk), kOld, 1);
  const std::string leftover = kRoot + "/.tmp-step_000000000009-0123456789abcdef";
  disk->make_directory(leftover);
  disk->set_content(leftover + "/notes.txt", {});
  disk->make_directory(kRoot + "/.tmp-something");
  disk->set_content(kRoot + "/step_9", {});
  const CommitResult result = save(*store_on(disk), kNew, 1);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find(leftover), std::string::npos);
  EXPECT_EQ(disk->list(leftover).size(), 1u);
  EXPECT_EQ(disk->list(kRoot + "/.tmp-something").size(), 0u);
  EXPECT_EQ(store_on(disk)->list().steps.size(), 2u);
}

TEST(Removal, StoppedAtEveryCallLeavesTheStepWholeOrGone) {
  for (const PowerCut cut : {PowerCut::kEverything, PowerCut::kEntries, PowerCut::kNothing}) {
    bool died = true;
    for (int at = 1; died; ++at) {
      SCOPED_TRACE(at);
      Trial run;
      save(*store_on(run.disk), kOld, 2);
      save(*store_on(run.disk), kNew, 2);
      run.files->set_fault(Fault{"", at});
      died = false;
      try {
        store_on(run.files)->remove(kNew);
      } catch (const SimulatedCrash&) {
        died = true;
      }
      run.disk->crash(cut);
      bool has_new = false;
      ASSERT_EQ(violation(*run.disk, run.disk, has_new), "");
      ASSERT_TRUE(died || !has_new);
      expect_next_save_cleans(*run.disk, run.disk);
    }
  }
}

}  // namespace
}  // namespace zero::checkpoint
