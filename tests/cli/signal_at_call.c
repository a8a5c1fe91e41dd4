/* Preloaded into a program under test: raises a signal right before a certain call of pread,
   pwrite or unlink, so that it comes in the midst of the work, always at the same place. ZERO_TEST_SIGNAL is
   the signal, ZERO_TEST_CALL the call (its name), ZERO_TEST_COUNT which of them, from 1.
   Reads and writes of less than 64 KiB do not count. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Tables are smaller, so that the work has begun. */
static const size_t kLarge = 65536;

static void count(const char* call, size_t size) {
  static int calls = 0;
  const char* wanted = getenv("ZERO_TEST_CALL");
  if (wanted == NULL || strcmp(wanted, call) != 0 || size < kLarge) return;
  if (++calls == atoi(getenv("ZERO_TEST_COUNT"))) raise(atoi(getenv("ZERO_TEST_SIGNAL")));
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  ssize_t (*next)(int, const void*, size_t, off_t) =
      (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  count("pwrite", size);
  return next(fd, data, size, offset);
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  ssize_t (*next)(int, void*, size_t, off_t) =
      (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  count("pread", size);
  return next(fd, data, size, offset);
}

int unlink(const char* path) {
  int (*next)(const char*) = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  count("unlink", kLarge);
  return next(path);
}
