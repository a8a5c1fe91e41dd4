// Files that another machine has written, and this one does not see yet.

#include "checkpoint/ranks/patient_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/ranks/choose.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A disk on which names are not seen until somebody has waited.
class LaggingFiles : public testing::FaultyFileSystem {
 public:
  LaggingFiles(std::shared_ptr<FileSystem> inner, std::function<bool(const std::string&)> lags)
      : FaultyFileSystem(std::move(inner)), lags_(std::move(lags)) {}

  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override {
    if (lags_(path)) throw FileError("open", path, code);
    return FaultyFileSystem::open(path, links);
  }
  FileStatus status(const std::string& path) override {
    return lags_(path) ? FileStatus{} : FaultyFileSystem::status(path);
  }

  int code = ENOENT;

 private:
  std::function<bool(const std::string&)> lags_;
};

/// A root with a checkpoint of two ranks, of which one shard comes after `lag` waits.
class PatientFilesTest : public ::testing::Test {
 protected:
  PatientFilesTest() { save_together(world_, 5); }

  std::shared_ptr<FileSystem> patient(std::size_t lag, Patience patience = {}) {
    lagging_ = std::make_shared<LaggingFiles>(std::make_shared<testing::FaultyFileSystem>(memory()),
                                              [this, lag](const std::string& path) {
                                                return path.ends_with(shard_name(1, 2)) &&
                                                       waits_.size() < lag;
                                              });
    patience.sleep = [this](milliseconds time) { waits_.push_back(time); };
    return with_patience(lagging_, is_checkpoint_file_name, patience);
  }
  std::shared_ptr<FileSystem> memory() { return {std::shared_ptr<void>(), &world_.disk()}; }
  std::string directory() const { return join_path(kRoot, step_name(5)); }

  World world_{Flavour::kHdf5, 2};
  std::shared_ptr<LaggingFiles> lagging_;
  std::vector<milliseconds> waits_;
};

TEST_F(PatientFilesTest, ACheckpointOpensOnceItsLastFileIsSeen) {
  const auto reader = open_checkpoint(patient(3), directory());
  EXPECT_EQ(difference(*reader, 5, 2), "");
  EXPECT_THAT(waits_, ElementsAre(milliseconds(60), milliseconds(120), milliseconds(240)));
}

TEST_F(PatientFilesTest, RankZeroWaitsTooBeforeItCallsTheNewestOneDamaged) {
  zero::testing::on_ranks(1, [&](const std::shared_ptr<Collective>& comm) {
    const Candidates found = find_candidates(*patient(1), kRoot, /*fall_back=*/true, *comm);
    EXPECT_THAT(found.directories, ElementsAre(directory()));
    EXPECT_THAT(found.warnings, IsEmpty());
    comm->shutdown();
  });
}

TEST_F(PatientFilesTest, StaleHandlesAreWaitedForAndOtherErrorsAreNot) {
  const auto files = patient(1);
  lagging_->code = ESTALE;
  EXPECT_NE(files->open(join_path(directory(), shard_name(1, 2))), nullptr);
  EXPECT_THAT(waits_, SizeIs(1));
  waits_.clear();
  lagging_->code = EACCES;
  EXPECT_THROW(files->open(join_path(directory(), shard_name(1, 2))), FileError);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(PatientFilesTest, PatienceEndsForAllFilesTogetherWithinTwoSeconds) {
  const auto files = patient(1000);
  EXPECT_THROW(open_checkpoint(files, directory()), Error);
  milliseconds total{0};
  for (const milliseconds wait : waits_) total += wait;
  EXPECT_GT(total, milliseconds(1000));
  EXPECT_LT(total, milliseconds(2000));
  const std::size_t before = waits_.size();
  EXPECT_EQ(files->status(join_path(directory(), shard_name(1, 2))).kind, FileKind::kMissing);
  EXPECT_EQ(waits_.size(), before);
}

TEST_F(PatientFilesTest, WhatNobodyKnowsOfIsNotWaitedFor) {
  const auto files = patient(0);
  EXPECT_EQ(files->status(join_path(kRoot, "nothing")).kind, FileKind::kMissing);
  EXPECT_THROW(files->open(join_path(kRoot, kLatestTemporaryName)), FileError);
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_THROW(with_patience(files, is_checkpoint_file_name, {.waits = -1}), ContractError);
}

}  // namespace
}  // namespace zero::checkpoint
