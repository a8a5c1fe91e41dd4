#pragma once

/// A file system that fails on purpose, around another one.

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "checkpoint/file_system.h"

namespace zero::checkpoint::testing {

/// The process dies here. No std::exception, so that no handler takes it for an error and goes on.
struct SimulatedCrash {};

/// Which call fails, and how.
struct Fault {
  std::string operation;    ///< "pwrite", "fsync", ... ; empty: any operation.
  int at = 1;               ///< The at-th call of it, counted from 1.
  int code = 0;             ///< errno; 0: the process dies before the call.
  bool persistent = false;  ///< All later calls of the operation fail, too.
};

/// Operations are named as the functions of FileSystem and File. "close" is counted, destructors
/// are not. Thread-safe.
class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(std::shared_ptr<FileSystem> inner) : inner_(std::move(inner)) {}

  void set_fault(Fault fault);
  /// pwrite and pread do at most so many bytes; 0: no limit.
  void set_longest_transfer(std::size_t bytes) { longest_transfer_ = bytes; }
  /// A switch for the tests of the tests: fsync of files, or of directories, does nothing and says
  /// that it did.
  void set_lying_fsync(bool files, bool directories);

  /// Calls so far, by operation. "" counts all.
  std::map<std::string, int> calls() const;
  /// True once a fault struck.
  bool struck() const;

  std::unique_ptr<File> create(const std::string& path) override;
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override;
  void make_directory(const std::string& path) override;
  void fsync_directory(const std::string& path) override;
  void rename_new(const std::string& from, const std::string& to) override;
  void rename_over(const std::string& from, const std::string& to) override;
  void unlink(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  FileStatus status(const std::string& path) override;
  std::uint64_t free_bytes(const std::string& path) override;
  std::unique_ptr<FileLock> lock(const std::string& path) override;
  std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) override;

 private:
  friend class FaultyFile;
  void before(const char* operation, const std::string& path);

  std::shared_ptr<FileSystem> inner_;
  mutable std::mutex mutex_;
  std::map<std::string, int> calls_;
  std::optional<Fault> fault_;
  bool struck_ = false;
  bool dead_ = false;
  std::size_t longest_transfer_ = 0;
  bool files_lie_ = false;
  bool directories_lie_ = false;
};

}  // namespace zero::checkpoint::testing
