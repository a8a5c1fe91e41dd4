// What memory the caller's buffers lie in, and memory that NCCL likes.

#include <utility>

#include "backends/nccl/communicator.h"
#include "libzero/base/error.h"
#include "libzero/collective/check_calls.h"

namespace zero::nccl {

/// Throws ContractError for memory of another GPU. Where CUDA fails, the fate knows and next_call()
/// throws.
Memory Communicator::memory_of(const ConstBuffer& buffer, std::string_view what) const {
  if (buffer.count == 0) return Memory::kNone;
  CudaPointerAttributes attributes;
  try {
    // Asking, too, makes a device take memory.
    const OnDevice here(*options_.apis, options_.device);
    attributes = attributes_of(*options_.apis, buffer.data);
  } catch (const Broken& error) {
    fate_->fail(rank_text() + " failed: " + error.what());
    return Memory::kNone;
  }
  if (attributes.type != kCudaMemoryDevice && attributes.type != kCudaMemoryManaged) {
    return Memory::kHost;
  }
  ZERO_REQUIRE(attributes.type == kCudaMemoryManaged || attributes.device == options_.device,
               "nccl: a buffer lies on another GPU than its communicator; move it: " +
                   std::string(what) + " is on GPU " + std::to_string(attributes.device) +
                   ", the communicator on " + std::to_string(options_.device));
  const bool is_registered =
      link_ && link_->has_registered(buffer.data, buffer.count * size_of(buffer.dtype));
  return is_registered ? Memory::kRegistered : Memory::kDevice;
}

/// Throws ContractError where one is the host's and the other a GPU's.
std::pair<Memory, Memory> Communicator::one_kind(Memory input, Memory output,
                                                 std::string_view label) const {
  const auto is_on_gpu = [](Memory memory) { return memory >= Memory::kDevice; };
  ZERO_REQUIRE(is_on_gpu(input) == is_on_gpu(output) || fate_->failed(),
               "nccl: input and output of a call must both lie in the GPU's memory or both in host "
               "memory; move one: [" +
                   std::string(label) + "]");
  return {input, output};
}

std::shared_ptr<void> Communicator::device_memory(std::int64_t bytes) {
  ZERO_REQUIRE(bytes > 0, "nccl: device_memory needs a size: " + std::to_string(bytes) + " bytes");
  std::unique_ptr<DeviceMemory> memory;
  try {
    const OnDevice here(*options_.apis, options_.device);
    memory = std::make_unique<DeviceMemory>(options_.apis, bytes, Allocator::kNccl);
  } catch (const Broken&) {
    return nullptr;
  }
  void* const begin = memory->get();
  allocations_->add({static_cast<const char*>(begin), bytes});
  return {begin, [allocations = allocations_, apis = options_.apis, device = options_.device,
                  owner = memory.release()](void* gone) {
            allocations->remove(gone);
            std::unique_ptr<DeviceMemory> last(owner);
            try {
              const OnDevice here(*apis, device);
              last.reset();
            } catch (const Broken&) {  // a device that has failed
            }
          }};
}

std::shared_ptr<void> Communicator::register_memory(void* memory, std::int64_t bytes) {
  check_not_shut_down(shut_down_, "register_memory", "");
  if (size() == 1) return nullptr;
  constexpr std::string_view kLabel = "register_memory";
  if (fate_->failed()) throw CommError(std::string(kLabel) + ": " + fate_->reason());
  // The whole of it: NCCL rounds to pages, and what lies beside would be half in it.
  const auto allocation = allocations_->find(memory, bytes);
  if (!talk_.all_have(allocation && bytes > 0, kLabel)) return nullptr;
  std::shared_ptr<void> token = tell_nccl(*allocation);
  return talk_.all_have(token != nullptr, kLabel) ? token : nullptr;
}

/// Null where NCCL does not want it.
std::shared_ptr<void> Communicator::tell_nccl(const Range& allocation) {
  try {
    const OnDevice here(*options_.apis, options_.device);
    payload_->register_scratch();
    return link_->register_memory(allocation);
  } catch (const Broken&) {
    return nullptr;
  } catch (const Stopped&) {
    return nullptr;  // the fate knows, and the other ranks hear of it
  }
}

}  // namespace zero::nccl
