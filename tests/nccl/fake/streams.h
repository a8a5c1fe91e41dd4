#pragma once

/// Streams of the fake GPU: queues, each worked off later by a thread of its own.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backends/nccl/cuda_api.h"

namespace zero::nccl_test {

class FakeStream {
 public:
  explicit FakeStream(int device);
  /// Works off what is left.
  ~FakeStream();

  /// The stream behind a handle; null is the default stream of this thread's device.
  static FakeStream& of(nccl::CudaStream handle);

  int device() const { return device_; }
  void put(std::function<void()> task);
  bool idle();

  /// NCCL is about to put something here; until then nobody else may.
  void reserve(bool reserved);

 private:
  void work();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool closing_ = false;
  bool reserved_ = false;
  std::thread thread_;
};

/// All streams that somebody made, and has not destroyed, have nothing to do.
bool streams_are_idle();

/// The device of this thread.
int& current_device();

/// Table of the fake CUDA runtime: a host with `kFakeDevices` GPUs.
inline constexpr int kFakeDevices = 64;
nccl::CudaApi fake_cuda();

}  // namespace zero::nccl_test
