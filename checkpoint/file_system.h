#pragma once

/// The seam under checkpoints: everything that they ask of a file system, so that tests can break
/// it at any call.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/base/error.h"

namespace zero::checkpoint {

/// What the operating system refused, with its number, for callers that can do something about it.
class FileError : public IoError {
 public:
  /// `operation` is the name of the call, "pwrite" for instance; `code` is errno.
  FileError(std::string_view operation, std::string_view path, int code);
  /// errno.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// An open regular file. The destructor closes it and swallows what that reports: writers call
/// close(). Calls on one File may come from several threads as long as none of them is close().
/// Offsets and sizes are bytes.
class File {
 public:
  virtual ~File() = default;
  /// At most data.size() bytes, at least 1 unless data is empty: returns how many. Throws
  /// FileError, also with EINTR (write_all() tries again).
  virtual std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) = 0;
  /// At most data.size() bytes, 0 at the end of the file: returns how many. Throws FileError, also
  /// with EINTR (read_all() tries again).
  virtual std::size_t pread(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// Bytes and size are on the disk when it returns. After a failure nothing is known about them,
  /// and a second call proves nothing. Throws FileError.
  virtual void fsync() = 0;
  /// Throws FileError. The file counts as closed either way.
  virtual void close() = 0;
  /// Bytes of the file now. Throws FileError.
  virtual std::uint64_t size() = 0;
  /// How many of these bytes are stored, about: at least `enough`, if there are so many. The others
  /// are holes, which take no room on the disk. A file system that does not tell has none.
  virtual std::uint64_t stored_bytes(std::uint64_t offset, std::uint64_t size,
                                     std::uint64_t enough) {
    static_cast<void>(offset), static_cast<void>(enough);
    return size;
  }
};

enum class FileKind { kMissing, kRegular, kDirectory, kOther };

/// Of the name itself: a symbolic link is kOther.
struct FileStatus {
  FileKind kind = FileKind::kMissing;
  std::uint64_t size = 0;
};

/// Released by its destructor, on any thread, and by the kernel when the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

/// What a symbolic link at the end of a path counts as. Those on the way to it are always followed.
enum class Links {
  kRefuse,  ///< An error. For names that libzero makes: nobody redirects a checkpoint's files.
  kFollow,  ///< What it leads to. For files that a person names.
};

/// Who may hold a lock at the same time.
enum class Sharing { kShared, kAlone };

/// All functions may be called from several threads, and throw FileError unless they say otherwise.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// A new file to write; EEXIST if the name is taken, whatever by.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  /// An existing regular file to read; ELOOP for a symbolic link that is refused or leads in a
  /// circle, EINVAL for what is no regular file.
  virtual std::unique_ptr<File> open(const std::string& path, Links links) = 0;
  /// The same, refusing a symbolic link.
  std::unique_ptr<File> open(const std::string& path) { return open(path, Links::kRefuse); }
  /// A new directory in one that exists.
  virtual void make_directory(const std::string& path) = 0;
  /// The names in it are on the disk when it returns.
  virtual void fsync_directory(const std::string& path) = 0;
  /// Fails with EEXIST if `to` exists.
  virtual void rename_new(const std::string& from, const std::string& to) = 0;
  /// Replaces a file `to`.
  virtual void rename_over(const std::string& from, const std::string& to) = 0;
  /// Removes a file's name, or a symbolic link.
  virtual void unlink(const std::string& path) = 0;
  /// Removes an empty directory.
  virtual void remove_directory(const std::string& path) = 0;
  /// Names in a directory without "." and "..", sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  /// kMissing for a name that does not exist.
  virtual FileStatus status(const std::string& path) = 0;
  /// Bytes that this user may still write on the file system that holds `path`.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;
  /// Creates the file if it is missing and locks it; null if somebody else holds it.
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
  /// Locks a directory that exists; null if somebody else's lock does not go with that.
  virtual std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) = 0;
};

/// The operating system's. May be shared by any number of stores and threads.
std::shared_ptr<FileSystem> on_disk();

/// How often in a row a call that a signal interrupted is tried again: enough for any timer, but
/// not for ever.
inline constexpr int kMaxInterruptions = 1000;

/// Writes everything at byte `offset`: short writes go on, interrupted ones are tried again, at
/// most kMaxInterruptions times in a row. Throws FileError; some bytes may have been written then.
void write_all(File& file, std::span<const std::byte> data, std::uint64_t offset);

/// Fills `data` from byte `offset` on, likewise. Throws FormatError, naming `path`, if the file
/// ends before, and FileError; `data` is undefined then.
void read_all(File& file, std::span<std::byte> data, std::uint64_t offset, std::string_view path);

/// "root" + "name" -> "root/name"; "root/" does as well. REQUIRES a folder that is not empty.
std::string join_path(std::string_view folder, std::string_view name);

/// The folder that holds `path`: "a/b" -> "a", "b" -> ".", "/" -> "/". Trailing slashes do not
/// count.
std::string parent_path(std::string_view path);

/// The last component: "a/b" -> "b", "a/b//" -> "b", "b" -> "b".
std::string base_name(std::string_view path);

}  // namespace zero::checkpoint
