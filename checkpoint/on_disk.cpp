#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// The result of a call that returns -1 and EINTR when a signal interrupts it.
template <class Call>
int uninterrupted(Call call) {
  int result = call();
  for (int left = kMaxInterruptions; result < 0 && errno == EINTR && left > 0; --left) {
    result = call();
  }
  return result;
}

Descriptor open_descriptor(const char* operation, const std::string& path, int flags) {
  const int fd = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd < 0) throw FileError(operation, path, errno);
  return Descriptor(fd);
}

class DiskFile : public File {
 public:
  DiskFile(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  std::size_t pwrite(std::span<const std::byte> data, std::uint64_t offset) override {
    const ssize_t count =
        ::pwrite(descriptor_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0) throw FileError("pwrite", path_, errno);
    if (count == 0 && !data.empty()) throw FileError("pwrite", path_, ENOSPC);
    return static_cast<std::size_t>(count);
  }
  std::size_t pread(std::span<std::byte> data, std::uint64_t offset) override {
    const ssize_t count =
        ::pread(descriptor_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0) throw FileError("pread", path_, errno);
    return static_cast<std::size_t>(count);
  }
  void fsync() override {
    if (::fsync(descriptor_.get()) != 0) throw FileError("fsync", path_, errno);
  }
  void close() override {
    // Never again after EINTR: the descriptor may be somebody else's by then.
    if (::close(descriptor_.release()) != 0) throw FileError("close", path_, errno);
  }
  std::uint64_t size() override {
    struct stat status;
    if (::fstat(descriptor_.get(), &status) != 0) throw FileError("fstat", path_, errno);
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::uint64_t stored_bytes(std::uint64_t offset, std::uint64_t size,
                             std::uint64_t enough) override {
    const auto end = static_cast<off_t>(offset + size);
    std::uint64_t stored = 0;
    for (auto at = static_cast<off_t>(offset); at < end && stored < enough;) {
      const off_t begin = ::lseek(descriptor_.get(), at, SEEK_DATA);
      if (begin < 0 && errno == ENXIO) return stored;  // nothing but a hole follows
      const off_t hole = begin < 0 ? -1 : ::lseek(descriptor_.get(), begin, SEEK_HOLE);
      if (hole < 0) return size;  // it does not tell
      stored += static_cast<std::uint64_t>(std::max<off_t>(std::min(hole, end) - begin, 0));
      at = hole;
    }
    return stored;
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class DiskLock : public FileLock {
 public:
  explicit DiskLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  DiskLock(const DiskLock&) = delete;
  DiskLock& operator=(const DiskLock&) = delete;
  ~DiskLock() override {
    // Closing is not enough: a child that was forked meanwhile shares the lock with its descriptor.
    ::flock(descriptor_.get(), LOCK_UN);
  }

 private:
  Descriptor descriptor_;
};

FileStatus from_stat(const struct stat& status) {
  FileKind kind = FileKind::kOther;
  if (S_ISREG(status.st_mode)) kind = FileKind::kRegular;
  if (S_ISDIR(status.st_mode)) kind = FileKind::kDirectory;
  return {kind, static_cast<std::uint64_t>(status.st_size)};
}

class Disk : public FileSystem {
 public:
  std::unique_ptr<File> create(const std::string& path) override {
    return std::make_unique<DiskFile>(
        open_descriptor("create", path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW), path);
  }

  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Links links) override {
    // Without O_NONBLOCK a pipe put in a file's place would block for ever.
    const int flags = O_RDONLY | O_NONBLOCK | (links == Links::kRefuse ? O_NOFOLLOW : 0);
    Descriptor descriptor = open_descriptor("open", path, flags);
    struct stat status;
    if (::fstat(descriptor.get(), &status) != 0) throw FileError("fstat", path, errno);
    if (!S_ISREG(status.st_mode)) throw FileError("open", path, EINVAL);
    return std::make_unique<DiskFile>(std::move(descriptor), path);
  }

  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) throw FileError("mkdir", path, errno);
  }

  void fsync_directory(const std::string& path) override {
    const Descriptor descriptor = open_descriptor("open", path, O_RDONLY | O_DIRECTORY);
    if (::fsync(descriptor.get()) != 0) throw FileError("fsync of a directory", path, errno);
  }

  void rename_new(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
      throw FileError("rename", from + " to " + to, errno);
    }
    // NFS and some others know no RENAME_NOREPLACE; the lock on the root keeps other jobs out.
    if (status(to).kind != FileKind::kMissing) {
      throw FileError("rename", from + " to " + to, EEXIST);
    }
    rename_over(from, to);
  }

  void rename_over(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw FileError("rename", from + " to " + to, errno);
    }
  }

  void unlink(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) throw FileError("unlink", path, errno);
  }

  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) throw FileError("rmdir", path, errno);
  }

  std::vector<std::string> list(const std::string& path) override {
    const auto closer = [](DIR* directory) { ::closedir(directory); };
    Descriptor descriptor = open_descriptor("list", path, O_RDONLY | O_DIRECTORY);
    const std::unique_ptr<DIR, decltype(closer)> directory(::fdopendir(descriptor.get()), closer);
    if (!directory) throw FileError("list", path, errno);
    descriptor.release();  // The directory closes it.
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) throw FileError("list", path, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  FileStatus status(const std::string& path) override {
    struct stat status;
    if (::lstat(path.c_str(), &status) == 0) return from_stat(status);
    if (errno == ENOENT) return {};
    throw FileError("stat", path, errno);
  }

  std::uint64_t free_bytes(const std::string& path) override {
    struct statvfs status;
    if (::statvfs(path.c_str(), &status) != 0) throw FileError("statvfs", path, errno);
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }

  std::unique_ptr<FileLock> lock(const std::string& path) override {
    return locked(open_descriptor("lock", path, O_RDWR | O_CREAT | O_NOFOLLOW), path, LOCK_EX);
  }

  std::unique_ptr<FileLock> lock_directory(const std::string& path, Sharing sharing) override {
    return locked(open_descriptor("lock", path, O_RDONLY | O_DIRECTORY), path,
                  sharing == Sharing::kAlone ? LOCK_EX : LOCK_SH);
  }

 private:
  static std::unique_ptr<FileLock> locked(Descriptor descriptor, const std::string& path,
                                          int operation) {
    if (uninterrupted([&] { return ::flock(descriptor.get(), operation | LOCK_NB); }) == 0) {
      return std::make_unique<DiskLock>(std::move(descriptor));
    }
    if (errno == EWOULDBLOCK) return nullptr;
    throw FileError("lock", path, errno);
  }
};

}  // namespace

std::shared_ptr<FileSystem> on_disk() {
  return std::make_shared<Disk>();
}

}  // namespace zero::checkpoint
