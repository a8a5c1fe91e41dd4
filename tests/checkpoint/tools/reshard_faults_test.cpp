// Whatever goes wrong: the destination has the step whole or not at all, the source is as it was.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/reshard.h"
#include "checkpoint/verify.h"
#include "model.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kBlock = 256;

class ReshardFaults : public ::testing::Test {
 protected:
  ReshardFaults() { save_as_trainer(*store(files_, "/from"), model_, 3); }

  static std::unique_ptr<Store> store(std::shared_ptr<FileSystem> files, const std::string& root) {
    Hdf5StoreOptions options;
    options.block_bytes = kBlock;
    return make_hdf5_store(std::move(files), root, options);
  }
  std::string source() const { return "/from/" + step_name(7); }

  /// From the source's files to 2 ranks in "/to", all through `files`.
  ReshardResult run(const std::shared_ptr<FileSystem>& files, Progress progress = {}) {
    ReshardOptions options;
    options.world_size = 2;
    options.progress = std::move(progress);
    return reshard(*open_checkpoint(files, source()), *store(files, "/to"), options);
  }
  std::map<std::string, std::vector<std::byte>> source_files() {
    std::map<std::string, std::vector<std::byte>> result;
    for (const std::string& name : files_->list(source()))
      result[name] = files_->content(source() + "/" + name);
    return result;
  }
  Manifest source_manifest() {
    const auto bytes = files_->content(source() + "/" + std::string(kManifestName));
    return parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  bool committed() { return !store(files_, "/to")->list().steps.empty(); }
  void expect_whole() {
    EXPECT_THAT(verify(*files_, "/to/" + step_name(7)).findings, IsEmpty());
    EXPECT_EQ(difference(*store(files_, "/to")->open(7), model_), "");
  }
  /// No step, and nothing that a later save would have to clear away.
  void expect_nothing() {
    if (files_->status("/to").kind == FileKind::kMissing) return;
    for (const std::string& name : files_->list("/to")) EXPECT_EQ(name, ".lock");
  }
  void remove_destination() {
    for (const StepInfo& info : store(files_, "/to")->list().steps)
      store(files_, "/to")->remove(info.step);
    if (files_->status("/to/LATEST").kind != FileKind::kMissing) files_->unlink("/to/LATEST");
  }

  Model model_ = make_model({57, 97, 5}, {256, 64, 1});
  std::shared_ptr<testing::MemoryFileSystem> files_ = std::make_shared<testing::MemoryFileSystem>();
};

TEST_F(ReshardFaults, AnErrorOfAnyCallLeavesAllOrNothing) {
  const auto before = source_files();
  const auto counting = std::make_shared<testing::FaultyFileSystem>(files_);
  run(counting);
  const int calls = counting->calls()[""];
  remove_destination();
  int failed = 0;
  for (const int code : {ENOSPC, EIO}) {
    for (int at = 1; at <= calls; ++at) {
      const auto faulty = std::make_shared<testing::FaultyFileSystem>(files_);
      faulty->set_fault({"", at, code, false});
      bool threw = false, unknown = false;
      try {
        run(faulty);
      } catch (const CommitUnknown&) {
        unknown = true;
      } catch (const IoError&) {
        threw = true;
      }
      ASSERT_TRUE(faulty->struck()) << at;
      ASSERT_EQ(committed(), !threw) << at << (unknown ? " unknown" : "");
      if (threw) {
        expect_nothing();
        ++failed;
      } else {
        expect_whole();
        remove_destination();
      }
      ASSERT_TRUE(source_files() == before) << at;
      if (HasFailure()) FAIL() << "call " << at << " of " << calls << ", errno " << code;
    }
  }
  EXPECT_GT(failed, calls);  // Of twice as many runs: only the last few calls may fail unharmed.
}

TEST_F(ReshardFaults, AFullDiskIsNoticedBeforeCommit) {
  for (std::uint64_t room = 0; room < 40'000; room += 997) {
    files_->set_free_bytes(room);
    EXPECT_THROW(run(files_), IoError);
    files_->set_free_bytes(std::uint64_t{1} << 40);
    expect_nothing();
  }
}

TEST_F(ReshardFaults, StoppedAtAnyTimeLeavesNothing) {
  const auto before = source_files();
  int calls = 0;
  std::uint64_t last = 0, all = 0;
  run(files_, [&](std::uint64_t done, std::uint64_t total) {
    ++calls;
    EXPECT_GE(done, last);
    last = done;
    all = total;
    return true;
  });
  EXPECT_EQ(last, all);
  remove_destination();
  for (int at = 1; at <= calls; ++at) {
    int left = at;
    EXPECT_THROW(run(files_, [&](auto, auto) { return --left > 0; }), Cancelled);
    EXPECT_EQ(left, 0);
    expect_nothing();
  }
  EXPECT_TRUE(source_files() == before);
  run(files_);
  expect_whole();
}

TEST_F(ReshardFaults, DamageOfAnyBlockIsNamedBeforeAnythingIsWritten) {
  const Manifest manifest = source_manifest();
  int damaged = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const FileRecord& file = manifest.shard(rank);
    const std::string path = source() + "/" + file.name;
    const auto whole = files_->content(path);
    for (const DatasetRecord& data : file.datasets) {
      if (!data.name.ends_with("/data")) continue;
      for (std::uint64_t at = 0; at < data.bytes; at += kBlock) {
        auto bad = whole;
        bad[data.offset + at] ^= std::byte{4};
        files_->set_content(path, bad);
        try {
          run(files_);
          ADD_FAILURE() << path << data.name;
        } catch (const FormatError& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr(file.name), HasSubstr(data.name),
                                          HasSubstr("block " + std::to_string(at / kBlock))));
        }
        EXPECT_EQ(files_->status("/to").kind, FileKind::kMissing);
        ++damaged;
      }
    }
    files_->set_content(path, whole);
  }
  EXPECT_GT(damaged, 20);
}

// Blocks that were checked are not checked again; the digests see what became of them.
TEST_F(ReshardFaults, ASourceThatChangesMeanwhileIsNotCopied) {
  const std::string path = source() + "/" + shard_name(1, 3);
  const auto whole = files_->content(path);
  const auto manifest_bytes = files_->content(source() + "/" + std::string(kManifestName));
  const Manifest manifest =
      parse_manifest({reinterpret_cast<const char*>(manifest_bytes.data()), manifest_bytes.size()});
  const DatasetRecord* data = manifest.shard(1).find("/states/master/float32/data");
  auto bad = whole;
  bad[data->offset + 5] ^= std::byte{1};
  try {
    run(files_, [&](std::uint64_t done, std::uint64_t total) {
      if (done == total / 2) files_->set_content(path, bad);
      return true;
    });
    FAIL() << "a changed source was copied";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("not what the source holds"), HasSubstr("master")));
  }
  expect_nothing();
  files_->set_content(path, whole);
  run(files_);
  expect_whole();
}

TEST_F(ReshardFaults, AProgramThatDiesLeavesNoStep) {
  const auto counting = std::make_shared<testing::FaultyFileSystem>(files_);
  run(counting);
  const int calls = counting->calls()[""];
  remove_destination();
  for (int at = 1; at <= calls; at += 3) {
    const auto dying = std::make_shared<testing::FaultyFileSystem>(files_);
    dying->set_fault({"", at, 0, false});
    EXPECT_THROW(run(dying), testing::SimulatedCrash);
    files_->crash(testing::PowerCut::kEverything);
    if (committed()) expect_whole();
    remove_destination();
  }
}

}  // namespace
}  // namespace zero::checkpoint
