#pragma once

/// Lets the HDF5 library read and write through an object of ours instead of the operating system.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace zero::checkpoint::hdf5 {

/// What the library takes for a file. Exceptions become errors of the library.
class Medium {
 public:
  virtual ~Medium() = default;
  virtual void read(std::uint64_t offset, std::span<std::byte> data) = 0;
  virtual void write(std::uint64_t offset, std::span<const std::byte> data) = 0;
  virtual std::uint64_t size() = 0;
  virtual void resize(std::uint64_t size) = 0;
};

/// Makes H5Fcreate and H5Fopen with `access` use `medium`, which must outlive the file. REQUIRES a
/// Session.
void use_medium(hid_t access, Medium& medium);

}  // namespace zero::checkpoint::hdf5
