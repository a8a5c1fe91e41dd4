// Exports that are stopped, by errors, death and their caller.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/export.h"
#include "checkpoint/tools/safetensors.h"
#include "weights.h"

namespace zero::checkpoint {
namespace {

using testing::FaultyFileSystem;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using testing::PowerCut;
using testing::SimulatedCrash;

const std::string kFolder = "/out";
const std::string kPath = "/out/model.safetensors";

struct Way {
  ExportFormat format;
  std::uint64_t max_shard;
};

class ExportFails : public ::testing::TestWithParam<Way> {
 protected:
  ExportFails() { files_->make_directory(kFolder); }
  ExportOptions options() const {
    ExportOptions options;
    options.format = GetParam().format;
    options.max_shard = GetParam().max_shard;
    return options;
  }

  std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

TEST_P(ExportFails, WithAnErrorAtAnyCallAndLeavesNothing) {
  const auto reader = saved(odd_model(), 2);
  const auto faulty = std::make_shared<FaultyFileSystem>(files_);
  const auto first = export_parameters(*reader, *faulty, kPath, options());
  for (const std::string& name : first.files) files_->unlink(name);
  const auto calls = faulty->calls();
  EXPECT_GE(calls.at(""), 8);
  for (const int code : {ENOSPC, EIO}) {
    for (const bool persistent : {false, true}) {
      for (const auto& [operation, count] : calls) {
        for (int at = 1; at <= count; ++at) {
          // All calls failing from then on, unlink among them, is a dead disk: nothing helps.
          if (operation.empty() && persistent) continue;
          SCOPED_TRACE(operation + " " + std::to_string(at) + ", errno " + std::to_string(code));
          FaultyFileSystem files(files_);
          files.set_fault({operation, at, code, persistent});
          EXPECT_THROW(export_parameters(*reader, files, kPath, options()), FileError);
          EXPECT_TRUE(files.struck());
          ASSERT_THAT(files_->list(kFolder), IsEmpty());
        }
      }
    }
  }
}

TEST_P(ExportFails, ByDeathAtAnyCallAndLeavesWholeFilesOnly) {
  const Model model = odd_model();
  const auto reader = saved(model);
  bool finished = false;
  int whole = 0, at = 1;
  for (; !finished; ++at) {
    SCOPED_TRACE(at);
    for (const PowerCut cut : {PowerCut::kEverything, PowerCut::kEntries, PowerCut::kNothing}) {
      MemoryFileSystem disk;
      disk.make_directory(kFolder);
      disk.fsync_directory("/");
      FaultyFileSystem files(std::shared_ptr<FileSystem>(&disk, [](FileSystem*) {}));
      files.set_fault({"", at});
      std::vector<std::string> made;
      try {
        made = export_parameters(*reader, files, kPath, options()).files;
        finished = true;
      } catch (const SimulatedCrash&) {
      }
      disk.crash(cut);
      for (const std::string& path : made) {
        ASSERT_EQ(disk.status(path).kind, FileKind::kRegular) << path;
      }
      for (const std::string& name : disk.list(kFolder)) {
        if (name.starts_with(".zero-export-")) continue;
        const std::string path = join_path(kFolder, name);
        ++whole;
        if (name.ends_with(".index.json")) {
          ASSERT_EQ(difference(disk, path, model, std::nullopt), "");
        } else if (GetParam().format == ExportFormat::kSafetensors) {
          ASSERT_NO_THROW(SafetensorsFile(disk, path)) << name;
        } else {
          ASSERT_EQ(disk.content(path).at(0), std::byte{0x89});
        }
      }
    }
  }
  EXPECT_GT(at, 8);
  EXPECT_GT(whole, 0);
}

TEST_P(ExportFails, WhenToldToStopAndLeavesNothing) {
  const auto reader = saved(odd_model());
  std::uint64_t last = 0, total = 0;
  int calls = 0;
  ExportOptions counting = options();
  counting.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return ++calls > 0;
  };
  for (const std::string& name : export_parameters(*reader, *files_, kPath, counting).files) {
    files_->unlink(name);
  }
  EXPECT_EQ(last, total);
  EXPECT_GT(calls, 5);
  for (int stop = 1; stop <= calls; ++stop) {
    int seen = 0;
    ExportOptions stopping = options();
    stopping.progress = [&](auto, auto) { return ++seen < stop; };
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, stopping), Cancelled);
    EXPECT_THAT(files_->list(kFolder), IsEmpty());
  }
}

TEST_P(ExportFails, OnADamagedCheckpointAndLeavesNothing) {
  const auto store = make_hdf5_store(files_, "/store");
  odd_model().save(*store, 2);
  const auto reader = store->open(9);
  const std::string shard = "/store/step_000000000009/shard-00001-of-00002.h5";
  auto bytes = files_->content(shard);
  for (std::size_t at = 4000; at < bytes.size(); ++at) bytes[at] ^= std::byte{1};
  files_->set_content(shard, bytes);
  EXPECT_THROW(export_parameters(*reader, *files_, kPath, options()), FormatError);
  EXPECT_THAT(files_->list(kFolder), IsEmpty());
}

TEST_P(ExportFails, BeforeItWritesIfTheDiskHasNotTheRoom) {
  const auto reader = saved(odd_model());
  files_->set_free_bytes(200);
  FaultyFileSystem files(files_);
  EXPECT_THROW(export_parameters(*reader, files, kPath, options()), FileError);
  EXPECT_EQ(files.calls()["create"], 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, ExportFails,
                         ::testing::Values(Way{ExportFormat::kSafetensors, 0},
                                           Way{ExportFormat::kSafetensors, 100},
                                           Way{ExportFormat::kHdf5, 0}),
                         [](const auto& each) {
                           return each.param.format == ExportFormat::kHdf5 ? "Hdf5"
                                  : each.param.max_shard == 0              ? "OneFile"
                                                                           : "SeveralFiles";
                         });

}  // namespace
}  // namespace zero::checkpoint
