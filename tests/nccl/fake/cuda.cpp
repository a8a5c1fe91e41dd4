// The fake CUDA runtime: device memory is the host's, everything asynchronous really happens later.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "tests/nccl/fake/addresses.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {
namespace {

using nccl::CudaEvent;
using nccl::CudaStream;

constexpr int kInvalidValue = 1;

/// The moment that an event stands for.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  void set() {
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
};

struct FakeEvent {
  std::mutex mutex;
  std::shared_ptr<Mark> mark;
};

/// All that is alive.
struct Registry {
  std::mutex mutex;
  std::map<const char*, std::pair<std::size_t, int>> memory;  // size, device
  std::set<FakeStream*> streams;

  static Registry& get() {
    static Registry& registry = *new Registry;
    return registry;
  }
};

int failing(const char* function) {
  return Weather::now().call(function, current_device());
}

#define ZERO_FAKE_CALL(name) \
  if (const int answer = failing(name); answer != 0) return answer

int runtime_get_version(int* version) {
  *version = 13000;
  return 0;
}

int get_device_count(int* count) {
  ZERO_FAKE_CALL("cudaGetDeviceCount");
  *count = kFakeDevices;
  return 0;
}

int get_device(int* device) {
  ZERO_FAKE_CALL("cudaGetDevice");
  *device = current_device();
  return 0;
}

int set_device(int device) {
  ZERO_FAKE_CALL("cudaSetDevice");
  if (device < 0 || device >= kFakeDevices) return 101;
  current_device() = device;
  return 0;
}

int fake_malloc(void** memory, std::size_t bytes) {
  ZERO_FAKE_CALL("cudaMalloc");
  *memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.memory[static_cast<char*>(*memory)] = {bytes, current_device()};
  return 0;
}

/// The real one waits for the whole device.
int fake_free(void* memory) {
  ZERO_FAKE_CALL("cudaFree");
  Registry& registry = Registry::get();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::unique_lock lock(registry.mutex);
  const int device = registry.memory.at(static_cast<char*>(memory)).second;
  const auto busy = [&] {
    for (FakeStream* stream : registry.streams) {
      if (stream->device() == device && !stream->idle()) return true;
    }
    return false;
  };
  while (busy()) {
    if (std::chrono::steady_clock::now() > until) {
      Weather::now().broke_rule("cudaFree while the device hangs");
      return 0;  // leaked
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    lock.lock();
  }
  registry.memory.erase(static_cast<char*>(memory));
  std::free(memory);
  return 0;
}

int pointer_get_attributes(nccl::CudaPointerAttributes* attributes, const void* memory) {
  ZERO_FAKE_CALL("cudaPointerGetAttributes");
  *attributes = {};
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  auto after = registry.memory.upper_bound(static_cast<const char*>(memory));
  if (after != registry.memory.begin()) {
    const auto& [begin, size_and_device] = *std::prev(after);
    if (static_cast<const char*>(memory) < begin + size_and_device.first) {
      attributes->type = nccl::kCudaMemoryDevice;
      attributes->device = size_and_device.second;
      return 0;
    }
  }
  if (behind(memory) != memory) {
    attributes->type = nccl::kCudaMemoryDevice;
    attributes->device = current_device();
    return 0;
  }
  if (Weather::now().all_is_device_memory()) {
    attributes->type = nccl::kCudaMemoryManaged;
    attributes->device = current_device();
  }
  return 0;
}

int memcpy_async(void* to, const void* from, std::size_t bytes, int kind, CudaStream stream) {
  ZERO_FAKE_CALL("cudaMemcpyAsync");
  if (kind != nccl::kCudaMemcpyDefault) return kInvalidValue;
  FakeStream::of(stream).put(
      [to = behind(to), from = behind(from), bytes] { std::memcpy(to, from, bytes); });
  return 0;
}

int stream_create_with_flags(CudaStream* stream, unsigned flags) {
  ZERO_FAKE_CALL("cudaStreamCreateWithFlags");
  if (flags != nccl::kCudaStreamNonBlocking) return kInvalidValue;
  auto* const created = new FakeStream(current_device());
  *stream = created;
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.streams.insert(created);
  return 0;
}

int stream_destroy(CudaStream stream) {
  ZERO_FAKE_CALL("cudaStreamDestroy");
  auto* const old = static_cast<FakeStream*>(stream);
  if (!old->idle()) Weather::now().broke_rule("a stream was destroyed with work on it");
  Registry& registry = Registry::get();
  std::unique_lock lock(registry.mutex);
  registry.streams.erase(old);
  lock.unlock();
  delete old;
  return 0;
}

int stream_query(CudaStream stream) {
  ZERO_FAKE_CALL("cudaStreamQuery");
  return FakeStream::of(stream).idle() ? 0 : nccl::kCudaNotReady;
}

int stream_wait_event(CudaStream stream, CudaEvent event, unsigned) {
  ZERO_FAKE_CALL("cudaStreamWaitEvent");
  auto* const fake = static_cast<FakeEvent*>(event);
  const std::lock_guard lock(fake->mutex);
  if (fake->mark) FakeStream::of(stream).put([mark = fake->mark] { mark->wait(); });
  return 0;
}

int event_create_with_flags(CudaEvent* event, unsigned flags) {
  ZERO_FAKE_CALL("cudaEventCreateWithFlags");
  if (flags != nccl::kCudaEventDisableTiming) return kInvalidValue;
  *event = new FakeEvent;
  return 0;
}

int event_destroy(CudaEvent event) {
  ZERO_FAKE_CALL("cudaEventDestroy");
  delete static_cast<FakeEvent*>(event);
  return 0;
}

int event_record(CudaEvent event, CudaStream stream) {
  ZERO_FAKE_CALL("cudaEventRecord");
  auto* const fake = static_cast<FakeEvent*>(event);
  const auto mark = std::make_shared<Mark>();
  const std::lock_guard lock(fake->mutex);
  fake->mark = mark;
  FakeStream::of(stream).put([mark] { mark->set(); });
  return 0;
}

int event_query(CudaEvent event) {
  ZERO_FAKE_CALL("cudaEventQuery");
  auto* const fake = static_cast<FakeEvent*>(event);
  const std::lock_guard lock(fake->mutex);
  if (!fake->mark) return 0;
  const std::lock_guard mark_lock(fake->mark->mutex);
  return fake->mark->done ? 0 : nccl::kCudaNotReady;
}

int get_last_error() {
  return 0;
}

const char* get_error_string(int) {
  return "an error of the fake runtime";
}

}  // namespace

Addresses& addresses() {
  static Addresses addresses;
  return addresses;
}

bool streams_are_idle() {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  return std::all_of(registry.streams.begin(), registry.streams.end(),
                     [](FakeStream* stream) { return stream->idle(); });
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

FakeStream::FakeStream(int device) : device_(device), thread_([this] { work(); }) {}

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

FakeStream& FakeStream::of(CudaStream handle) {
  if (handle != nullptr) return *static_cast<FakeStream*>(handle);
  static std::mutex& mutex = *new std::mutex;
  static auto& streams = *new std::map<int, FakeStream*>;  // never destroyed
  const std::lock_guard lock(mutex);
  FakeStream*& stream = streams[current_device()];
  if (stream == nullptr) stream = new FakeStream(current_device());
  return *stream;
}

void FakeStream::put(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (reserved_) {
    Weather::now().broke_rule("work was put on a stream before NCCL had put its own there");
  }
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool FakeStream::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !busy_;
}

void FakeStream::reserve(bool reserved) {
  const std::lock_guard lock(mutex_);
  reserved_ = reserved;
}

void FakeStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !tasks_.empty() || closing_; });
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    Weather::now().pause();
    task();
    lock.lock();
    busy_ = false;
  }
}

nccl::CudaApi fake_cuda() {
  nccl::CudaApi api;
  api.runtime_get_version = runtime_get_version;
  api.get_device_count = get_device_count;
  api.get_device = get_device;
  api.set_device = set_device;
  api.malloc = fake_malloc;
  api.free = fake_free;
  api.pointer_get_attributes = pointer_get_attributes;
  api.memcpy_async = memcpy_async;
  api.stream_create_with_flags = stream_create_with_flags;
  api.stream_destroy = stream_destroy;
  api.stream_query = stream_query;
  api.stream_wait_event = stream_wait_event;
  api.event_create_with_flags = event_create_with_flags;
  api.event_destroy = event_destroy;
  api.event_record = event_record;
  api.event_query = event_query;
  api.get_last_error = get_last_error;
  api.get_error_string = get_error_string;
  return api;
}

}  // namespace zero::nccl_test
