#include "tests/gpu_check/fake_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <atomic>

namespace zero::gpu_check {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// For one device.
class Counting final : public c10::DeviceAllocator {
 public:
  Counting(c10::Allocator& inner, bool forgets) : inner_(inner), forgets_(forgets) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr inner = inner_.allocate(bytes);
    if (bytes == 0) return inner;
    void* const memory = inner.get();
    const c10::Device device = inner.device();
    requested_ += static_cast<std::int64_t>(bytes);
    if (forgets_ && ++pieces_ % 2 == 0) requested_ += static_cast<std::int64_t>(bytes);
    return {memory, new Piece{std::move(inner), bytes, this}, &give_back, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_.copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.requested_bytes[kAll].current = requested_;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

 private:
  struct Piece {
    c10::DataPtr inner;
    std::size_t bytes;
    Counting* owner;
  };

  static void give_back(void* context) {
    auto* const piece = static_cast<Piece*>(context);
    piece->owner->requested_ -= static_cast<std::int64_t>(piece->bytes);
    delete piece;
  }

  c10::Allocator& inner_;
  const bool forgets_;
  std::atomic<std::int64_t> requested_ = 0, pieces_ = 0;
};

/// For results that begin without memory; LibTorch's fallback for devices has none of its own.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  const c10::Storage& storage = impl->unsafe_storage();
  const std::size_t bytes =
      static_cast<std::size_t>(c10::multiply_integers(size)) * self.dtype().itemsize();
  if (bytes > storage.nbytes()) {
    TORCH_CHECK(self.numel() == 0, "the fake device does not keep what is resized");
    const c10::DeviceGuard here(self.device());
    storage.set_data_ptr_noswap(c10::GetAllocator(kType)->allocate(bytes));
    storage.set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(size);
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("resize_", &resize);
}

}  // namespace

void count_fake_memory(bool forgets) {
  // Never destroyed: tensors may outlive everything.
  auto* const counting = new Counting(*c10::GetAllocator(kType), forgets);
  c10::SetAllocator(kType, counting, /*priority=*/1);
}

}  // namespace zero::gpu_check
