#include "tests/accelerator/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/accelerator/memory.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/fake/weather.h"

namespace zero::accelerator_test {
namespace {

using nccl_test::current_device;
using nccl_test::FakeStream;

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

const nccl::CudaApi& cuda() {
  static const nccl::CudaApi api = nccl_test::fake_cuda();
  return api;
}

class OnDevice {
 public:
  explicit OnDevice(int index) : before_(current_device()) { current_device() = index; }
  ~OnDevice() { current_device() = before_; }

 private:
  int before_;
};

/// This thread's stream of each device; null is the default one.
std::array<void*, kDevices>& present_streams() {
  thread_local std::array<void*, kDevices> streams{};
  return streams;
}

void* handle_of(const c10::Stream& stream) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(stream.id()));
}

c10::Stream stream_of(c10::Device device, void* handle) {
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<std::intptr_t>(handle));
}

void check(int error, const char* what) {
  TORCH_CHECK(error == 0, "the fake device failed: ", what);
}

template <class Done>
void poll(Done done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

/// A few streams a device, handed out in turn.
void* pooled_stream(int index) {
  static std::mutex& mutex = *new std::mutex;
  static auto& streams = *new std::array<std::array<void*, kPooledStreams>, kDevices>{};
  static auto& next = *new std::array<int, kDevices>{};
  const std::lock_guard lock(mutex);
  const auto d = static_cast<std::size_t>(index);
  void*& stream = streams[d][static_cast<std::size_t>(next[d]++ % kPooledStreams)];
  const OnDevice here(index);
  if (stream == nullptr) cuda().stream_create_with_flags(&stream, nccl::kCudaStreamNonBlocking);
  return stream;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {kType, static_cast<c10::DeviceIndex>(current_device())};
  }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device() = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    const c10::Device which = device.has_index() ? device : getDevice();
    return stream_of(which, present_streams()[static_cast<std::size_t>(which.index())]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(device, nullptr);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream_of(device, pooled_stream(device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_of(device, pooled_stream(device.index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    present_streams()[static_cast<std::size_t>(stream.device_index())] = handle_of(stream);
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    const OnDevice here(stream.device_index());
    if (*event == nullptr) cuda().event_create_with_flags(event, nccl::kCudaEventDisableTiming);
    check(cuda().event_record(*event, handle_of(stream)), "recording an event");
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const OnDevice here(stream.device_index());
    check(cuda().stream_wait_event(handle_of(stream), event, 0), "waiting for an event");
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || cuda().event_query(event) == 0;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) cuda().event_destroy(event);
  }
  void synchronizeEvent(void* event) const override {
    poll([&] { return queryEvent(event); });
  }
  bool queryStream(const c10::Stream& stream) const override {
    const OnDevice here(stream.device_index());
    return cuda().stream_query(handle_of(stream)) == 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    poll([&] { return queryStream(stream); });
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    poll([] { return nccl_test::streams_are_idle(); });
  }
};

/// As LibTorch's caching allocator: what is freed may be used again by its stream, in order.
struct DeviceAllocator final : c10::Allocator {
  struct Piece {
    void* address;
    FakeStream* stream;
  };

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = Guard().getDevice();
    if (bytes == 0) return {nullptr, device};
    FakeStream& stream = FakeStream::of(handle_of(Guard().getStream(device)));
    auto* const piece = new Piece{take_device_memory(bytes), &stream};
    return {piece->address, piece, &free_later, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(behind(to), behind(from), bytes);
  }

  static void free_later(void* context) {
    auto* const piece = static_cast<Piece*>(context);
    piece->stream->put([address = piece->address] { give_device_memory_back(address); });
    delete piece;
  }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::DeviceType::CPU};
    check(nccl_test::Weather::now().call("cudaHostAlloc", current_device()),
          "allocating pinned memory");
    void* const memory = take_pinned_memory(bytes);
    return {memory, memory, &give_pinned_memory_back, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_pinned_memory_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device() = index; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static auto& generators = *new std::vector<at::Generator>;
    static std::mutex& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    while (generators.size() < kDevices)
      generators.push_back(at::make_generator<at::CPUGeneratorImpl>());
    return generators[static_cast<std::size_t>(index < 0 ? current_device() : index)];
  }
  bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator& allocator = *new PinnedAllocator;
    return &allocator;
  }
};

const bool kRegistered = [] {
  static DeviceAllocator& allocator = *new DeviceAllocator;
  c10::SetAllocator(kType, &allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("fake");
  return true;
}();

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::Device device(int index) {
  return {kType, static_cast<c10::DeviceIndex>(index)};
}

void on_present_stream(c10::Device device, std::function<void()> work) {
  const OnDevice here(device.index());
  FakeStream::of(handle_of(Guard().getStream(device))).put(std::move(work));
}

void wait_for_present_stream(c10::Device device) {
  Guard().synchronizeStream(Guard().getStream(device));
}

}  // namespace zero::accelerator_test
