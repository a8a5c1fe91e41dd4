#pragma once

/// The seam under offload: what it asks of the operating system, so that tests can fail, delay and
/// reorder every call.

#include <sys/types.h>

#include <cstddef>

namespace zero {

/// The operating system's own; whoever derives from it changes single ones. Each answers as its
/// namesake does, with -1 and errno where it fails, and throws nothing; sizes and offsets are
/// bytes. What fails becomes the optimizer's IoError. pread() and pwrite() are called by several
/// threads at once, the others by one.
class IoCalls {
 public:
  virtual ~IoCalls() = default;
  /// open(2): a descriptor.
  virtual int open(const char* path, int flags, mode_t mode);
  /// unlink(2).
  virtual int unlink(const char* path);
  /// posix_fallocate(3) of the first `bytes`: 0 or an error number, which errno does not hold.
  virtual int allocate(int fd, off_t bytes);
  /// From now on past the page cache (O_DIRECT): 0, or -1 and errno where the file system cannot,
  /// which is no error.
  virtual int go_direct(int fd);
  /// Back through the page cache.
  virtual int go_buffered(int fd);
  /// pread(2): fewer bytes than asked for are fine, and so is EINTR.
  virtual ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset);
  /// pwrite(2), likewise.
  virtual ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset);
  /// close(2). Its answer is not looked at.
  virtual int close(int fd);
};

}  // namespace zero
