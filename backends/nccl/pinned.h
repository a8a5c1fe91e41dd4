#pragma once

/// Host memory that the GPU writes while nobody waits: a copy to memory that CUDA does not know
/// returns when it is done, and behind a kernel whose peers have died that is never.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/nccl/device.h"

namespace zero::nccl {

/// Keeps what it has handed out for the next time: allocating it is slow. Any thread.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  PinnedPool(ApisPtr apis, int device) : apis_(std::move(apis)), device_(device) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// At least `bytes`; given back when nobody holds it any more. Throws Broken.
  std::shared_ptr<std::byte> take(std::int64_t bytes);

  /// Leaves all of it to the device that hangs.
  void abandon() noexcept;

 private:
  struct Block {
    void* memory = nullptr;
    std::int64_t bytes = 0;
  };

  void give_back(const Block& block) noexcept;
  void free(const Block& block) noexcept;

  const ApisPtr apis_;
  const int device_;
  std::mutex mutex_;
  std::vector<Block> idle_;
  bool abandoned_ = false;
};

/// What is to be copied from there to where it belongs once the GPU is done.
struct Landing {
  void* to = nullptr;
  std::shared_ptr<std::byte> from;
  std::int64_t bytes = 0;

  void finish() const;
};

}  // namespace zero::nccl
