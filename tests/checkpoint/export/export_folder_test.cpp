// What dead exports have left, and live ones are still writing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/tools/export.h"
#include "tests/temporary_folder.h"
#include "weights.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SimulatedCrash;

const std::string kLeft = ".zero-export-0123456789abcdef";

class ExportFolders : public ::testing::Test {
 protected:
  void leave(const std::string& name) { std::ofstream(folder_ / name) << "left"; }
  std::vector<std::string> names() { return files_->list(folder_.path()); }
  std::vector<std::string> export_to(const std::string& name, FileSystem& files,
                                     Progress progress = {}) {
    ExportOptions options;
    options.progress = std::move(progress);
    return export_parameters(*reader_, files, folder_ / name, options).warnings;
  }

  zero::testing::TemporaryFolder folder_;
  std::shared_ptr<FileSystem> files_ = on_disk();
  std::unique_ptr<Reader> reader_ = saved(odd_model());
};

TEST_F(ExportFolders, AreFreedOfWhatDeadExportsHaveLeftAndOfNothingElse) {
  const std::vector<std::string> others = {".zero-export-", ".zero-export-0123456789ABCDEF",
                                           ".zero-export-0123456789abcdef0", "notes"};
  leave(kLeft);
  for (const std::string& name : others) leave(name);
  std::filesystem::create_directory(folder_ / ".zero-export-00000000000000dd");
  EXPECT_THAT(export_to("m.safetensors", *files_), IsEmpty());
  std::vector<std::string> expected = others;
  expected.insert(expected.end(), {".zero-export-00000000000000dd", "m.safetensors"});
  EXPECT_THAT(names(), ::testing::UnorderedElementsAreArray(expected));
}

/// The lock of one that lives is in the kernel, so a second one sees it, as another process does.
TEST_F(ExportFolders, KeepTheFilesOfAnExportThatIsAtWork) {
  std::vector<std::string> warnings;
  leave(kLeft);
  bool begun = false;
  export_to("first.safetensors", *files_, [&](auto done, auto) {
    if (done > 0 && !begun) {
      begun = true;
      leave(kLeft);  // the first one removed it before
      warnings = export_to("second.safetensors", *files_);
    }
    return true;
  });
  EXPECT_THAT(warnings, ::testing::Contains(AllOf(HasSubstr(kLeft), HasSubstr("at work"))));
  EXPECT_THAT(names(), ElementsAre(kLeft, "first.safetensors", "second.safetensors"));
  EXPECT_THAT(export_to("third.safetensors", *files_), IsEmpty());
  EXPECT_THAT(names(), ElementsAre("first.safetensors", "second.safetensors", "third.safetensors"));
}

TEST_F(ExportFolders, AreFreedAfterADeathAtAnyCall) {
  for (int at = 1;; ++at) {
    SCOPED_TRACE(at);
    {
      FaultyFileSystem files(files_);
      files.set_fault({"", at});
      try {
        export_to("m.safetensors", files);
        EXPECT_GT(at, 8);
        break;
      } catch (const SimulatedCrash&) {
      }
    }
    std::filesystem::remove(folder_ / "m.safetensors");  // it had its name before it died
    EXPECT_THAT(export_to("m.safetensors", *files_), IsEmpty());
    EXPECT_THAT(names(), ElementsAre("m.safetensors"));
    std::filesystem::remove(folder_ / "m.safetensors");
  }
}

TEST_F(ExportFolders, WithoutLocksKeepEverythingAndSaySo) {
  for (const int code : {ENOLCK, EBADF, EOPNOTSUPP}) {
    leave(kLeft);
    FaultyFileSystem files(files_);
    files.set_fault({"lock_directory", 1, code, true});
    EXPECT_THAT(export_to("m.safetensors", files),
                ElementsAre(AllOf(HasSubstr(folder_ / kLeft), HasSubstr("no locks"))));
    EXPECT_THAT(names(), ElementsAre(kLeft, "m.safetensors"));
    std::filesystem::remove(folder_ / "m.safetensors");
  }
}

TEST_F(ExportFolders, ALeftoverThatDoesNotGoIsAWarning) {
  leave(kLeft);
  FaultyFileSystem files(files_);
  files.set_fault({"unlink", 1, EPERM});
  EXPECT_THAT(export_to("m.safetensors", files),
              ElementsAre(AllOf(HasSubstr(kLeft), HasSubstr("not permitted"))));
}

}  // namespace
}  // namespace zero::checkpoint
