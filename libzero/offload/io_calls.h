#pragma once

/// The seam under offload: what it asks of the operating system, so that tests can fail, delay and
/// reorder every call.

#include <sys/types.h>

#include <cstddef>

namespace zero {

/// The operating system's own; whoever derives from it changes single ones. Each answers as its
/// namesake does. pread() and pwrite() are called by several threads at once.
class IoCalls {
 public:
  virtual ~IoCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int unlink(const char* path);
  /// posix_fallocate: 0 or an error number.
  virtual int allocate(int fd, off_t bytes);
  /// From now on past the page cache: 0, or -1 and errno where the file system cannot.
  virtual int go_direct(int fd);
  /// Back through the page cache.
  virtual int go_buffered(int fd);
  virtual ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset);
  virtual ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset);
  virtual int close(int fd);
};

}  // namespace zero
