#include "tests/accelerator/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "tests/nccl/fake/addresses.h"

namespace zero::accelerator_test {
namespace {

struct Block {
  std::size_t bytes;
  std::byte* bytes_behind;
};

/// Blocks by address. Never destroyed: tensors may outlive everything.
struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, Block> by_address;

  static Blocks& device() {
    static Blocks& blocks = *new Blocks;
    return blocks;
  }
  static Blocks& pinned() {
    static Blocks& blocks = *new Blocks;
    return blocks;
  }

  /// The block that holds `address`, or null.
  const std::pair<const std::uintptr_t, Block>* around(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const auto after = by_address.upper_bound(wanted);
    if (after == by_address.begin()) return nullptr;
    const auto& candidate = *std::prev(after);
    return wanted - candidate.first < candidate.second.bytes ? &candidate : nullptr;
  }
};

/// So that the fake machine's kernels and copies find what lies behind these addresses.
const bool kKnown = [] {
  nccl_test::addresses().behind = &behind;
  return true;
}();

std::byte* take_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  void* const memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);  // NaN in every type
  return static_cast<std::byte*>(memory);
}

}  // namespace

void* take_device_memory(std::size_t bytes) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  const Block block{bytes, take_bytes(bytes)};
  Blocks& blocks = Blocks::device();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_address[reinterpret_cast<std::uintptr_t>(address)] = block;
  return address;
}

void give_device_memory_back(void* address) {
  Blocks& blocks = Blocks::device();
  const std::lock_guard lock(blocks.mutex);
  const auto found = blocks.by_address.find(reinterpret_cast<std::uintptr_t>(address));
  std::memset(found->second.bytes_behind, 0xff, found->second.bytes);
  std::free(found->second.bytes_behind);
  ::munmap(address, found->second.bytes);
  blocks.by_address.erase(found);
}

void* behind(const void* address) {
  Blocks& blocks = Blocks::device();
  const std::lock_guard lock(blocks.mutex);
  const auto* const block = blocks.around(address);
  if (block == nullptr) return const_cast<void*>(address);
  return block->second.bytes_behind + (reinterpret_cast<std::uintptr_t>(address) - block->first);
}

void* take_pinned_memory(std::size_t bytes) {
  std::byte* const memory = take_bytes(bytes);
  Blocks& blocks = Blocks::pinned();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_address[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, memory};
  return memory;
}

void give_pinned_memory_back(void* memory) {
  Blocks& blocks = Blocks::pinned();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_address.erase(reinterpret_cast<std::uintptr_t>(memory));
  std::free(memory);
}

bool is_pinned(const void* memory) {
  Blocks& blocks = Blocks::pinned();
  const std::lock_guard lock(blocks.mutex);
  return blocks.around(memory) != nullptr;
}

}  // namespace zero::accelerator_test
