#include "backends/nccl/pinned.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace zero::nccl {

PinnedPool::~PinnedPool() {
  for (const Block& block : idle_) free(block);
}

std::shared_ptr<std::byte> PinnedPool::take(std::int64_t bytes) {
  Block block{nullptr, bytes};
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Block& idle) { return idle.bytes >= bytes; };
    const auto found = std::find_if(idle_.begin(), idle_.end(), fits);
    if (found != idle_.end()) block = *found, idle_.erase(found);
  }
  if (block.memory == nullptr) {
    check_cuda(*apis_, apis_->cuda.malloc_host(&block.memory, static_cast<std::size_t>(bytes)),
               "cudaMallocHost");
  }
  return {static_cast<std::byte*>(block.memory),
          [self = shared_from_this(), block](std::byte*) { self->give_back(block); }};
}

void PinnedPool::give_back(const Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    idle_.push_back(block);
  } catch (const std::bad_alloc&) {
    free(block);
  }
}

void PinnedPool::free(const Block& block) noexcept {
  if (abandoned_) return;
  try {
    const OnDevice here(*apis_, device_);
    apis_->cuda.free_host(block.memory);
  } catch (const Broken&) {  // a device that has failed: the process's end frees it
  }
}

void PinnedPool::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

void Landing::finish() const {
  std::memcpy(to, from.get(), static_cast<std::size_t>(bytes));
}

}  // namespace zero::nccl
