#include "checkpoint/locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "checkpoint/names.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "tests/temporary_folder.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(FileSystem& files, const std::string& root, RootLock which,
                     std::chrono::milliseconds wait = {}) {
  try {
    lock_root(files, root, which, wait);
  } catch (const RootBusy& error) {
    return std::string("busy: ") + error.what();
  } catch (const FileError& error) {
    return std::string("error: ") + error.what();
  }
  return "taken";
}

class Locks : public ::testing::TestWithParam<RootLock> {
 protected:
  std::string root() const { return folder_.path(); }
  std::string name() const {
    return std::string(GetParam() == RootLock::kSave ? kLockName : kJobLockName);
  }
  RootLock other() const {
    return GetParam() == RootLock::kSave ? RootLock::kJob : RootLock::kSave;
  }

  zero::testing::TemporaryFolder folder_;
  std::shared_ptr<FileSystem> files_ = on_disk();
};

TEST_P(Locks, KeepOthersOutUntilTheyAreReleased) {
  auto lock = lock_root(*files_, root(), GetParam());
  EXPECT_TRUE(is_held(*files_, root(), GetParam()));
  EXPECT_THAT(error_of(*files_, root(), GetParam()), AllOf(HasSubstr("busy: "), HasSubstr(root())));
  EXPECT_EQ(error_of(*files_, root(), other()), "taken") << "the two do not meet";
  EXPECT_FALSE(is_held(*files_, root(), other()));
  lock.reset();
  EXPECT_FALSE(is_held(*files_, root(), GetParam()));
  EXPECT_EQ(error_of(*files_, root(), GetParam()), "taken");
}

TEST_P(Locks, EndWithTheProcessThatHoldsThem) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = lock_root(*files_, root(), GetParam());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(is_held(*files_, root(), GetParam()));
  EXPECT_THAT(error_of(*files_, root(), GetParam()), HasSubstr("busy: "));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_held(*files_, root(), GetParam()));
  EXPECT_EQ(error_of(*files_, root(), GetParam()), "taken");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(Locks, LookingMakesNoFile) {
  EXPECT_FALSE(is_held(*files_, root(), GetParam()));
  EXPECT_TRUE(std::filesystem::is_empty(root()));
  lock_root(*files_, root(), GetParam());
  EXPECT_TRUE(std::filesystem::exists(folder_ / name()));
}

/// Refused once or twice, as by one who looks: whoever waits gets it then.
TEST_P(Locks, WhoeverWaitsIsNotKeptOutByOneWhoLooks) {
  class OftenLookedAt : public testing::FaultyFileSystem {
   public:
    using FaultyFileSystem::FaultyFileSystem;
    std::unique_ptr<FileLock> lock(const std::string& path) override {
      return --looks_ >= 0 ? nullptr : FaultyFileSystem::lock(path);
    }
    int looks_ = 2;
  } files(files_);
  EXPECT_THAT(error_of(files, root(), GetParam()), HasSubstr("busy: "));
  files.looks_ = 2;
  EXPECT_EQ(error_of(files, root(), GetParam(), std::chrono::seconds(20)), "taken");
}

TEST_P(Locks, AFileSystemWithoutLocksSaysWhatToDo) {
  testing::FaultyFileSystem files(files_);
  for (const int code : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    files.set_fault({"lock", 1, code, true});
    EXPECT_THAT(error_of(files, root(), GetParam()),
                AllOf(HasSubstr("error: "), HasSubstr("set `lock` to false"), HasSubstr(name())));
  }
  files.set_fault({"lock", 1, EACCES, true});
  EXPECT_THAT(error_of(files, root(), GetParam()),
              AllOf(HasSubstr("error: "), HasSubstr("errno 13"), HasSubstr(name())));
}

INSTANTIATE_TEST_SUITE_P(Both, Locks, ::testing::Values(RootLock::kSave, RootLock::kJob),
                         [](const auto& each) {
                           return each.param == RootLock::kSave ? "OfASave" : "OfAJob";
                         });

}  // namespace
}  // namespace zero::checkpoint
