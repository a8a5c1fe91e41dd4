#pragma once

/// Arrays on a GPU, filled from the host and read back.

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends/nccl/device.h"

namespace zero::gpu_check {

/// Copies and launches on one stream of this thread's device.
class Lane {
 public:
  explicit Lane(nccl::ApisPtr apis) : apis_(std::move(apis)), stream_(apis_) {}

  const nccl::ApisPtr& apis() const { return apis_; }
  nccl::CudaStream stream() const { return stream_.get(); }

  void copy(void* to, const void* from, std::size_t bytes) {
    nccl::check_cuda(*apis_,
                     apis_->cuda.memcpy_async(to, from, bytes, nccl::kCudaMemcpyDefault, stream()),
                     "cudaMemcpyAsync");
    wait();
  }

  void wait() {
    nccl::Event end(apis_);
    end.record(stream());
    while (!end.done()) std::this_thread::yield();
  }

  /// Seconds of one of `rounds` launches, after one that does not count.
  double time(int rounds, const std::function<void()>& launch) {
    launch();
    wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) launch();
    wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count() / rounds;
  }

 private:
  nccl::ApisPtr apis_;
  nccl::Stream stream_;
};

template <class T>
class DeviceData {
 public:
  /// In memory of its own, or in `memory`, which must be as large.
  DeviceData(Lane& lane, const std::vector<T>& values, std::shared_ptr<void> memory = nullptr)
      : lane_(lane), count_(values.size()), memory_(std::move(memory)) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    if (!memory_) {
      const auto own = std::make_shared<nccl::DeviceMemory>(lane.apis(), bytes + 1);
      memory_ = std::shared_ptr<void>(own, own->get());
    }
    lane_.copy(memory_.get(), values.data(), count_ * sizeof(T));
  }

  T* get() const { return static_cast<T*>(memory_.get()); }

  std::vector<T> read() const {
    std::vector<T> values(count_);
    lane_.copy(values.data(), memory_.get(), count_ * sizeof(T));
    return values;
  }

 private:
  Lane& lane_;
  std::size_t count_;
  std::shared_ptr<void> memory_;
};

}  // namespace zero::gpu_check
