#pragma once

/// Owners of what the CUDA runtime hands out, for one device. Each keeps the table of functions
/// alive. Destructors never throw; what a device that hangs would block on is left to leak.

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "backends/nccl/libraries.h"

namespace zero::nccl {

using ApisPtr = std::shared_ptr<const Apis>;

/// What a call of CUDA or NCCL answered when it failed, in words.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Broken: "cudaMalloc gave error 2 (out of memory)".
void check_cuda(const Apis& apis, int error, const char* function);

/// What CUDA knows of a pointer; of one that is not its own, that. Throws Broken.
CudaPointerAttributes attributes_of(const Apis& apis, const void* memory);

/// Makes `device` this thread's own for as long as it lives. Whoever asks CUDA for anything has
/// one: almost any call makes the thread's present device take memory, and that is 0 on a new
/// thread. Afterwards the thread has its former device again, unless nobody uses that in this
/// process.
class OnDevice {
 public:
  OnDevice(const Apis& apis, int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  bool is_used(int device) const;

  const Apis& apis_;
  int before_ = 0;
  bool changed_ = false;
};

class Stream {
 public:
  explicit Stream(ApisPtr apis);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CudaStream get() const noexcept { return stream_; }
  /// Never again after abandon().
  bool idle() const noexcept;
  void abandon() noexcept { abandoned_ = true; }

 private:
  ApisPtr apis_;
  CudaStream stream_ = nullptr;
  std::atomic<bool> abandoned_ = false;
};

class Event {
 public:
  explicit Event(ApisPtr apis);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(CudaStream stream);
  void make_wait(CudaStream stream) const;
  /// All work before record() has ended. Throws Broken where the device has failed.
  bool done() const;

 private:
  ApisPtr apis_;
  CudaEvent event_ = nullptr;
};

enum class Allocator { kCuda, kNccl };

class DeviceMemory {
 public:
  DeviceMemory(ApisPtr apis, std::int64_t bytes, Allocator allocator = Allocator::kCuda);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* get() const noexcept { return memory_; }
  std::int64_t bytes() const noexcept { return bytes_; }
  void abandon() noexcept { memory_ = nullptr; }

 private:
  ApisPtr apis_;
  std::int64_t bytes_;
  Allocator allocator_;
  void* memory_ = nullptr;
};

}  // namespace zero::nccl
