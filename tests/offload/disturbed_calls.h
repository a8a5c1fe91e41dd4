#pragma once

/// An operating system that does what a test says.

#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>

#include "libzero/offload/io_calls.h"

namespace zero::testing {

/// Every hook may be empty, or answer for the operating system; without an answer that is asked.
/// Hooks of pread and pwrite are called by several threads at once.
struct DisturbedCalls : IoCalls {
  using Transfer =
      std::function<std::optional<ssize_t>(int fd, void* memory, std::size_t bytes, off_t at)>;
  std::function<std::optional<int>(int flags)> on_open;
  std::function<int()> on_unlink;    ///< An error number, 0: none.
  std::function<int()> on_allocate;  ///< An error number, 0: none.
  std::function<int()> on_direct;    ///< An error number, 0: none.
  Transfer on_pread;
  Transfer on_pwrite;
  std::function<void(void* memory, ssize_t bytes, off_t at)> after_pread;
  std::atomic<int> reads = 0, writes = 0, opened = 0, closed = 0;

  int open(const char* path, int flags, mode_t mode) override {
    if (on_open) {
      if (const auto answer = on_open(flags)) return *answer;
    }
    ++opened;
    return IoCalls::open(path, flags, mode);
  }
  int unlink(const char* path) override {
    if (const int error = on_unlink ? on_unlink() : 0) return fail(error);
    return IoCalls::unlink(path);
  }
  int allocate(int fd, off_t bytes) override {
    const int error = on_allocate ? on_allocate() : 0;
    return error != 0 ? error : IoCalls::allocate(fd, bytes);
  }
  int go_direct(int fd) override {
    if (const int error = on_direct ? on_direct() : 0) return fail(error);
    return IoCalls::go_direct(fd);
  }
  ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) override {
    ++reads;
    if (on_pread) {
      if (const auto answer = on_pread(fd, to, bytes, offset)) return *answer;
    }
    const ssize_t got = IoCalls::pread(fd, to, bytes, offset);
    if (after_pread) after_pread(to, got, offset);
    return got;
  }
  ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) override {
    ++writes;
    if (on_pwrite) {
      if (const auto answer = on_pwrite(fd, const_cast<void*>(from), bytes, offset)) return *answer;
    }
    return IoCalls::pwrite(fd, from, bytes, offset);
  }
  int close(int fd) override {
    ++closed;
    return IoCalls::close(fd);
  }

  static int fail(int error) {
    errno = error;
    return -1;
  }
};

}  // namespace zero::testing
