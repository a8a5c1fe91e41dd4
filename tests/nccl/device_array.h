#pragma once

/// Memory that the fake GPU knows as its own.

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "tests/nccl/fake/streams.h"

namespace zero::nccl_test {

class DeviceArray {
 public:
  DeviceArray(int device, std::int64_t bytes) {
    const int before = current_device();
    current_device() = device;
    if (fake_cuda().malloc(&memory_, static_cast<std::size_t>(bytes)) != 0) {
      throw std::runtime_error("no memory of the fake GPU");
    }
    current_device() = before;
  }
  ~DeviceArray() { fake_cuda().free(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

}  // namespace zero::nccl_test
