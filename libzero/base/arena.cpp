#include "libzero/base/arena.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Thirteen cache lines: five arrays side by side differ in every low bit that caches hash.
constexpr std::int64_t kStagger = 832;
constexpr std::int64_t kOffsets = 5;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::int64_t Arena::room_for(std::int64_t bytes) noexcept {
  return bytes == 0 ? 0 : rounded_up(bytes + kStagger * (kOffsets - 1), kPage);
}

Arena::Arena(std::int64_t capacity) : capacity_(capacity) {
  ZERO_REQUIRE(capacity >= 0,
               "An arena cannot hold fewer than 0 bytes: " + std::to_string(capacity));
  if (capacity == 0) return;
  mapped_ = static_cast<std::size_t>(capacity) + kHugePage;
  void* const mapping = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  base_ = mapping_ + ((kHugePage - address % kHugePage) % kHugePage);
  // Only advice: a kernel without huge pages says no, and small pages do as well.
  ::madvise(base_, static_cast<std::size_t>(capacity), MADV_HUGEPAGE);
  std::memset(base_, 0, static_cast<std::size_t>(capacity));
}

Arena::~Arena() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

std::byte* Arena::take(std::int64_t bytes) {
  ZERO_REQUIRE(bytes >= 0 && bytes <= capacity_ - used_ && room_for(bytes) <= capacity_ - used_,
               "The arena is too small for this array: " + std::to_string(bytes) + " bytes, " +
                   std::to_string(capacity_ - used_) + " of " + std::to_string(capacity_) +
                   " are left");
  if (bytes == 0) return base_;
  std::byte* const array = base_ + used_ + taken_ % kOffsets * kStagger;
  used_ += room_for(bytes);
  ++taken_;
  return array;
}

}  // namespace zero
