#include "libzero/offload/page_memory.h"

#include <cstring>
#include <new>

namespace zero {
namespace {

constexpr auto kAlignment = std::align_val_t{static_cast<std::size_t>(kPageBytes)};

}  // namespace

PageMemory::PageMemory(std::int64_t bytes)
    : data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment))),
      bytes_(bytes) {
  std::memset(data_.get(), 0, static_cast<std::size_t>(bytes));
}

void PageMemory::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlignment);
}

}  // namespace zero
