#pragma once

/// Memory of the fake accelerator: its addresses are for the device alone, whoever touches one on
/// the host dies of it.

#include <cstddef>

namespace zero::accelerator_test {

/// An address that cannot be read or written, before `bytes` of room.
void* take_device_memory(std::size_t bytes);
void give_device_memory_back(void* address);

/// Where the bytes of an address lie: what kernels work on. An address of the host stays what it
/// is.
void* behind(const void* address);

/// Host memory that copies need not wait for.
void* take_pinned_memory(std::size_t bytes);
void give_pinned_memory_back(void* memory);
bool is_pinned(const void* memory);

}  // namespace zero::accelerator_test
