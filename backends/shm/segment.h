#pragma once

/// Memory that several processes map. It has no name: whoever may look into its creator's /proc
/// opens it there, and it is gone with the last process that maps it, however that ends. It does
/// not count against the size of /dev/shm.

#include <sys/types.h>

#include <cstddef>

#include "backends/shm/descriptor.h"

namespace zero::shm {

class Segment {
 public:
  /// Throws Unavailable if the kernel has no such memory, IoError if it refuses.
  static Segment create(std::size_t bytes);
  /// Opens the memory behind a descriptor of another process (or of this one). Throws Unavailable
  /// if that is not allowed, ContractError if it is not `bytes` of such memory.
  static Segment open(pid_t pid, int descriptor, std::size_t bytes);

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.number(); }

  /// Takes the memory of a range from the system now, so that touching it later cannot fail, and
  /// close to the core that calls. Throws IoError naming the bytes and what to do.
  void allocate(std::size_t begin, std::size_t bytes);

  /// Afterwards nobody can open the memory any more; those that have mapped it keep it.
  void close_descriptor() { descriptor_ = Descriptor(); }

 private:
  Segment(Descriptor descriptor, std::size_t bytes);

  Descriptor descriptor_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace zero::shm
