#pragma once

/// Device memory whose addresses are not those of its bytes, so that a host that touches it is
/// found out: tests/accelerator has such memory. Without it addresses stand for themselves.

namespace zero::nccl_test {

struct Addresses {
  /// Where the bytes of an address lie; an address of other memory stays what it is.
  void* (*behind)(const void* address) = nullptr;
};

/// Of the process; to be set before main().
Addresses& addresses();

template <class T>
T* behind(T* address) {
  if (addresses().behind == nullptr || address == nullptr) return address;
  return static_cast<T*>(addresses().behind(address));
}

}  // namespace zero::nccl_test
