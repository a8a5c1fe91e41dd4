/// Preloaded into a program under test: raises a signal right before a certain call of pread,
/// pwrite or unlink, so that it comes in the midst of the work, always at the same place.
/// ZERO_TEST_SIGNAL is the signal, ZERO_TEST_CALL the call (its name), ZERO_TEST_COUNT which of
/// them, from 1. Reads and writes of less than 64 KiB do not count.

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace {

// Tables are smaller, so that the work has begun.
constexpr std::size_t kLarge = 65536;

void count(std::string_view call, std::size_t size) {
  static int calls = 0;
  const char* wanted = std::getenv("ZERO_TEST_CALL");
  if (wanted == nullptr || wanted != call || size < kLarge) return;
  if (++calls == std::atoi(std::getenv("ZERO_TEST_COUNT"))) {
    std::raise(std::atoi(std::getenv("ZERO_TEST_SIGNAL")));
  }
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  count("pwrite", size);
  return next<decltype(pwrite)>("pwrite")(fd, data, size, offset);
}

ssize_t pread(int fd, void* data, std::size_t size, off_t offset) {
  count("pread", size);
  return next<decltype(pread)>("pread")(fd, data, size, offset);
}

int unlink(const char* path) noexcept {
  count("unlink", kLarge);
  return next<int(const char*)>("unlink")(path);
}

}  // extern "C"
