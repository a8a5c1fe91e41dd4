#include "tests/optim/live_bytes.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<std::int64_t> live{0};

std::size_t header_of(std::align_val_t alignment) {
  return std::max(static_cast<std::size_t>(alignment), sizeof(std::size_t));
}

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
std::array<std::atomic<void*>, 256> arenas{};

bool replace(void* from, void* to) {
  for (auto& arena : arenas) {
    void* expected = from;
    if (arena.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

}  // namespace

extern "C" {
void* mmap(void* where, std::size_t size, int protection, int flags, int file, off_t offset) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what the kernel answers is an address.
  auto* const mapping =
      reinterpret_cast<void*>(syscall(SYS_mmap, where, size, protection, flags, file, offset));
  if ((flags & MAP_NORESERVE) != 0 && mapping != MAP_FAILED && replace(nullptr, mapping))
    live += static_cast<std::int64_t>(size) - kHugePage;
  return mapping;
}

int munmap(void* mapping, std::size_t size) {
  if (mapping != nullptr && replace(mapping, nullptr))
    live -= static_cast<std::int64_t>(size) - kHugePage;
  return static_cast<int>(syscall(SYS_munmap, mapping, size));
}
}

// The size stands in front of each block, in a header as long as the alignment.
void* operator new(std::size_t size, std::align_val_t alignment) {
  const std::size_t header = header_of(alignment);
  void* block = nullptr;
  if (posix_memalign(&block, header, header + size) != 0) throw std::bad_alloc();
  std::memcpy(block, &size, sizeof size);
  live += static_cast<std::int64_t>(size);
  return static_cast<char*>(block) + header;
}

void operator delete(void* pointer, std::align_val_t alignment) noexcept {
  if (pointer == nullptr) return;
  char* const block = static_cast<char*>(pointer) - header_of(alignment);
  std::size_t size = 0;
  std::memcpy(&size, block, sizeof size);
  live -= static_cast<std::int64_t>(size);
  std::free(block);
}

void operator delete(void* pointer, std::size_t, std::align_val_t alignment) noexcept {
  operator delete(pointer, alignment);
}

namespace zero::testing {

std::int64_t live_library_bytes() noexcept {
  return live;
}

}  // namespace zero::testing
