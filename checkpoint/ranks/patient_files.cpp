#include "checkpoint/ranks/patient_files.h"

#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace zero::checkpoint {
namespace {

void sleep_here(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

class PatientFiles final : public FileSystem {
 public:
  PatientFiles(std::shared_ptr<FileSystem> files, std::function<bool(std::string_view)> is_known,
               Patience patience)
      : files_(std::move(files)), is_known_(std::move(is_known)), patience_(std::move(patience)) {}

  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override {
    while (true) {
      try {
        return files_->open(path, links);
      } catch (const FileError& error) {
        const bool may_come = error.code() == ENOENT || error.code() == ESTALE;
        if (!may_come || !wait_for(path)) throw;
      }
    }
  }

  FileStatus status(const std::string& path) override {
    while (true) {
      const FileStatus status = files_->status(path);
      if (status.kind != FileKind::kMissing || !wait_for(path)) return status;
    }
  }

  std::unique_ptr<File> create(const std::string& path) override { return files_->create(path); }
  void make_directory(const std::string& path) override { files_->make_directory(path); }
  void fsync_directory(const std::string& path) override { files_->fsync_directory(path); }
  void rename_new(const std::string& from, const std::string& to) override {
    files_->rename_new(from, to);
  }
  void rename_over(const std::string& from, const std::string& to) override {
    files_->rename_over(from, to);
  }
  void unlink(const std::string& path) override { files_->unlink(path); }
  void remove_directory(const std::string& path) override { files_->remove_directory(path); }
  std::vector<std::string> list(const std::string& path) override { return files_->list(path); }
  std::uint64_t free_bytes(const std::string& path) override { return files_->free_bytes(path); }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return files_->lock(path); }
  std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) override {
    return files_->lock_directory(path, sharing);
  }

 private:
  /// False if there is nothing to wait for, or no time left. Threads wait one after the other: what
  /// one waited for, the others need not.
  bool wait_for(const std::string& path) {
    if (!is_known_(std::string_view(path).substr(path.rfind('/') + 1))) return false;
    const std::lock_guard lock(mutex_);
    if (waited_ >= patience_.waits) return false;
    patience_.sleep(patience_.first * (1 << waited_));
    ++waited_;
    return true;
  }

  const std::shared_ptr<FileSystem> files_;
  const std::function<bool(std::string_view)> is_known_;
  const Patience patience_;
  std::mutex mutex_;
  int waited_ = 0;
};

}  // namespace

std::shared_ptr<FileSystem> with_patience(std::shared_ptr<FileSystem> files,
                                          std::function<bool(std::string_view name)> is_known,
                                          Patience patience) {
  ZERO_REQUIRE(patience.waits >= 0 && patience.waits <= 16 && patience.first.count() >= 0,
               "with_patience: waits must lie between 0 and 16, and last no negative time: " +
                   std::to_string(patience.waits) + " of " +
                   std::to_string(patience.first.count()) + " ms");
  if (!patience.sleep) patience.sleep = sleep_here;
  return std::make_shared<PatientFiles>(std::move(files), std::move(is_known), std::move(patience));
}

}  // namespace zero::checkpoint
