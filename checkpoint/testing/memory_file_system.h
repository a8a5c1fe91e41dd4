#pragma once

/// A file system in memory that knows what a power cut would leave.

#include <map>
#include <memory>
#include <mutex>

#include "checkpoint/file_system.h"

namespace zero::checkpoint::testing {

/// What survives of what was not synced.
enum class PowerCut {
  kEverything,  ///< All of it: only the process was killed.
  kEntries,  ///< Names and renames (somebody else's fsync pushed the journal out), but no bytes of
             ///< files.
  kNothing,  ///< Neither names nor bytes.
};

struct MemoryNode;

/// "/" exists. Paths are absolute; there are no links. Thread-safe.
class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();

  /// Everything that was not synced is lost as `cut` says; all locks are gone. Files that are still
  /// open must not be used.
  void crash(PowerCut cut);

  /// Bytes that may be written from now on, over all files. Then ENOSPC.
  void set_free_bytes(std::uint64_t bytes);

  /// The bytes of a file, to look at and to damage.
  std::vector<std::byte> content(const std::string& path);
  void set_content(const std::string& path, std::vector<std::byte> bytes);

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
  friend class MemoryFile;
  friend class MemoryLock;
  using Node = std::shared_ptr<MemoryNode>;

  Node find(const std::string& path);
  Node directory_of(const char* operation, const std::string& path);
  std::unique_ptr<FileLock> locked(const std::string& path, Sharing sharing);
  void move(const std::string& from, const std::string& to, bool replace);

  std::mutex mutex_;
  Node root_;
  std::map<std::string, int> locks_;  ///< How many share it; 0: one has it alone.
  std::uint64_t free_bytes_ = std::uint64_t{1} << 40;
};

}  // namespace zero::checkpoint::testing
