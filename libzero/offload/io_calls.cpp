#include "libzero/offload/io_calls.h"

#include <fcntl.h>
#include <unistd.h>

namespace zero {
namespace {

int set_direct(int fd, bool direct) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return -1;
  return ::fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT);
}

}  // namespace

int IoCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}

int IoCalls::unlink(const char* path) {
  return ::unlink(path);
}

int IoCalls::allocate(int fd, off_t bytes) {
  return ::posix_fallocate(fd, 0, bytes);
}

int IoCalls::go_direct(int fd) {
  return set_direct(fd, true);
}

int IoCalls::go_buffered(int fd) {
  return set_direct(fd, false);
}

ssize_t IoCalls::pread(int fd, void* to, std::size_t bytes, off_t offset) {
  return ::pread(fd, to, bytes, offset);
}

ssize_t IoCalls::pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
  return ::pwrite(fd, from, bytes, offset);
}

int IoCalls::close(int fd) {
  return ::close(fd);
}

}  // namespace zero
