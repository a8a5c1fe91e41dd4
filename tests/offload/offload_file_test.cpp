#include "libzero/offload/offload_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <utility>

#include "libzero/base/error.h"
#include "tests/offload/disturbed_calls.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::AllOf;
using testing::DisturbedCalls;
using ::testing::HasSubstr;
using testing::thrown;

class OffloadFileTest : public ::testing::Test {
 protected:
  OffloadFileTest() : plan_(std::vector<OffloadSpan>{{0, 0, 0, 5000}, {1, 0, 0, 300}}, 2048) {}

  std::unique_ptr<OffloadFile> make() {
    return std::make_unique<OffloadFile>(calls_, folder_.path(), "rank-3", plan_);
  }
  PageMemory block_of(std::size_t block, float first) {
    PageMemory memory(plan_.blocks()[block].bytes);
    auto* const values = reinterpret_cast<float*>(memory.data());
    for (std::int64_t i = 0; i < memory.bytes() / 4; ++i) values[i] = first + static_cast<float>(i);
    return memory;
  }
  void write_all(OffloadFile& file) {
    for (std::size_t b = 0; b < plan_.blocks().size(); ++b)
      file.write(b, block_of(b, static_cast<float>(b)).data());
  }
  /// Of the arrays: what fills up pages is nobody's.
  void expect_written(OffloadFile& file) {
    for (std::size_t b = 0; b < plan_.blocks().size(); ++b) {
      const OffloadBlock& block = plan_.blocks()[b];
      PageMemory memory(block.bytes);
      file.read(b, memory.data());
      const PageMemory expected = block_of(b, static_cast<float>(b));
      for (const std::int64_t at : block.at)
        EXPECT_EQ(std::memcmp(memory.data() + at, expected.data() + at,
                              static_cast<std::size_t>(block.array_bytes())),
                  0);
    }
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<DisturbedCalls> calls_ = std::make_shared<DisturbedCalls>();
  OffloadPlan plan_;
};

TEST_F(OffloadFileTest, GivesBackWhatWasWrittenAndZerosBefore) {
  const auto file = make();
  PageMemory memory(plan_.largest_block());
  std::fill_n(memory.data(), memory.bytes(), std::byte{7});
  file->read(0, memory.data());
  const auto zeros =
      std::count(memory.data(), memory.data() + 4 * plan_.blocks()[0].count, std::byte{0});
  EXPECT_EQ(zeros, 4 * plan_.blocks()[0].count);
  write_all(*file);
  expect_written(*file);
}

TEST_F(OffloadFileTest, WhatWasNeverWrittenIsNotRead) {
  const auto file = make();
  PageMemory memory(plan_.largest_block());
  const int before = calls_->reads;
  file->read(0, memory.data());
  EXPECT_EQ(calls_->reads, before);
}

TEST_F(OffloadFileTest, OneArrayIsWrittenAndReadAlone) {
  const auto file = make();
  const OffloadBlock& block = plan_.blocks()[1];
  const PageMemory written = block_of(1, 5);
  file->write_array(1, OffloadedArray::kFirst, written.data());
  PageMemory memory(block.bytes);
  file->read(1, memory.data());
  const auto* const values = reinterpret_cast<const float*>(memory.data() + block.at[1]);
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(values[block.count - 1], 5 + static_cast<float>(block.count - 1));
  EXPECT_EQ(reinterpret_cast<const float*>(memory.data() + block.at[0])[3], 0) << "the master";
  file->read_array(1, OffloadedArray::kFirst, memory.data());
  EXPECT_EQ(reinterpret_cast<const float*>(memory.data())[1], 6);
}

TEST_F(OffloadFileTest, HasNoNameAndItsRoomFromTheBeginning) {
  struct stat status {};
  int fd = -1;
  calls_->on_open = [&](int flags) -> std::optional<int> {
    fd = ::open(folder_.path().c_str(), flags, 0600);
    return fd;
  };
  const auto file = make();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  ASSERT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_size, plan_.file_bytes());
  EXPECT_GE(status.st_blocks * 512, plan_.file_bytes());
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(OffloadFileTest, WhereFilesNeedANameItIsTakenAwayAtOnce) {
  calls_->on_open = [](int flags) -> std::optional<int> {
    if ((flags & O_TMPFILE) == O_TMPFILE) return DisturbedCalls::fail(EOPNOTSUPP);
    return std::nullopt;
  };
  const auto file = make();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  write_all(*file);
  std::filesystem::remove_all(folder_.path());
  expect_written(*file);
}

TEST_F(OffloadFileTest, ANameThatStaysIsAnErrorAndNoFileIsLeftOpen) {
  calls_->on_open = [](int flags) -> std::optional<int> {
    if ((flags & O_TMPFILE) == O_TMPFILE) return DisturbedCalls::fail(EOPNOTSUPP);
    return std::nullopt;
  };
  calls_->on_unlink = [] { return EACCES; };
  EXPECT_THAT(thrown<IoError>([&] { make(); }), HasSubstr("Permission denied"));
  EXPECT_EQ(calls_->opened, calls_->closed);
}

TEST_F(OffloadFileTest, AFullDiskIsFoundWhenTheFileIsMade) {
  calls_->on_allocate = [] { return ENOSPC; };
  EXPECT_THAT(thrown<IoError>([&] { make(); }),
              AllOf(HasSubstr("no room"), HasSubstr(folder_ / "libzero-offload-rank-3"),
                    HasSubstr(std::to_string(plan_.file_bytes()) + " bytes"),
                    HasSubstr("No space left on device")));
  EXPECT_EQ(calls_->opened, calls_->closed);
}

TEST_F(OffloadFileTest, AMissingFolderIsNamed) {
  EXPECT_THAT(
      thrown<IoError>([&] { OffloadFile(calls_, folder_ / "nothing", "rank-0", plan_); }),
      AllOf(HasSubstr("must exist"), HasSubstr(folder_ / "nothing"), HasSubstr("No such file")));
}

TEST_F(OffloadFileTest, AReadThatFailsNamesFileAndPlace) {
  const auto file = make();
  write_all(*file);
  calls_->on_pread = [](int, void*, std::size_t, off_t) { return DisturbedCalls::fail(EIO); };
  PageMemory memory(plan_.largest_block());
  EXPECT_THAT(thrown<IoError>([&] { file->read(1, memory.data()); }),
              AllOf(HasSubstr("reading"), HasSubstr("libzero-offload-rank-3"),
                    HasSubstr("byte " + std::to_string(plan_.blocks()[1].offset)),
                    HasSubstr("Input/output error")));
}

TEST_F(OffloadFileTest, AWriteThatFailsNamesFileAndPlace) {
  const auto file = make();
  calls_->on_pwrite = [](int, void*, std::size_t, off_t) { return DisturbedCalls::fail(ENOSPC); };
  EXPECT_THAT(thrown<IoError>([&] { write_all(*file); }),
              AllOf(HasSubstr("writing"), HasSubstr("libzero-offload-rank-3, byte 0"),
                    HasSubstr("No space left")));
  calls_->on_pwrite = [](int, void*, std::size_t, off_t) { return ssize_t{0}; };
  EXPECT_THAT(thrown<IoError>([&] { write_all(*file); }), HasSubstr("takes no more"));
}

/// Odd byte counts, too, although O_DIRECT takes whole pages only.
TEST_F(OffloadFileTest, ShortTransfersAndInterruptionsGoOn) {
  const auto file = make();
  std::atomic<int> calls = 0;
  const auto short_one = [&](auto transfer) -> DisturbedCalls::Transfer {
    return [&calls, transfer](int fd, void* memory, std::size_t bytes,
                              off_t at) -> std::optional<ssize_t> {
      if (calls++ % 3 == 0) return DisturbedCalls::fail(EINTR);
      if (bytes <= 8192) return std::nullopt;
      const ssize_t done = transfer(fd, memory, 8192, at);
      return done - 1000;
    };
  };
  calls_->on_pread = short_one(::pread);
  calls_->on_pwrite = short_one(::pwrite);
  write_all(*file);
  expect_written(*file);
  EXPECT_GT(calls, 10);
}

TEST_F(OffloadFileTest, AFileThatEndsEarlyIsFound) {
  const auto file = make();
  write_all(*file);
  calls_->on_pread = [](int, void*, std::size_t, off_t) { return ssize_t{0}; };
  PageMemory memory(plan_.largest_block());
  EXPECT_THAT(thrown<IoError>([&] { file->read(0, memory.data()); }), HasSubstr("ends too early"));
}

TEST_F(OffloadFileTest, AnyChangedBitIsFoundWhenItIsRead) {
  const auto file = make();
  write_all(*file);
  const OffloadBlock& block = plan_.blocks()[2];
  PageMemory memory(plan_.largest_block());
  for (const std::int64_t at : block.at) {
    if (at < 0) continue;  // not kept
    calls_->after_pread = [&](void* read, ssize_t, off_t) {
      static_cast<std::byte*>(read)[at + block.array_bytes() - 1] ^= std::byte{64};
    };
    EXPECT_THAT(thrown<IoError>([&] { file->read(2, memory.data()); }),
                AllOf(HasSubstr("not what was written"),
                      HasSubstr("byte " + std::to_string(block.offset + at))));
  }
  calls_->after_pread = [&](void* read, ssize_t, off_t) {
    static_cast<std::byte*>(read)[0] ^= std::byte{1};
  };
  EXPECT_THAT(thrown<IoError>([&] { file->read_array(2, OffloadedArray::kSecond, memory.data()); }),
              HasSubstr("not what was written"));
}

TEST_F(OffloadFileTest, BlocksThatChangePlacesAreFound) {
  const auto file = make();
  write_all(*file);
  PageMemory memory(plan_.largest_block());
  const PageMemory other = block_of(0, 0);
  calls_->on_pread = [&](int, void* to, std::size_t bytes, off_t) -> std::optional<ssize_t> {
    std::memcpy(to, other.data(), bytes);
    return static_cast<ssize_t>(bytes);
  };
  file->read(0, memory.data());
  EXPECT_THAT(thrown<IoError>([&] { file->read(1, memory.data()); }),
              HasSubstr("not what was written"));
}

TEST_F(OffloadFileTest, WithoutODirectItGoesThroughThePageCacheAndSaysSo) {
  for (const int refuses_at : {0, 1}) {
    if (refuses_at == 0) {
      calls_->on_direct = [] { return EINVAL; };
    } else {  // the flag is taken, the first transfer is not
      calls_->on_direct = nullptr;
      calls_->on_pwrite = [first = true](int, void*, std::size_t,
                                         off_t) mutable -> std::optional<ssize_t> {
        if (std::exchange(first, false)) return DisturbedCalls::fail(EINVAL);
        return std::nullopt;
      };
    }
    const auto file = make();
    EXPECT_FALSE(file->is_direct());
    write_all(*file);
    expect_written(*file);
  }
}

}  // namespace
}  // namespace zero
