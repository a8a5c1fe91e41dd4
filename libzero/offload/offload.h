#pragma once

/// Where an optimizer keeps what it needs once a step only.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "libzero/offload/io_calls.h"

namespace zero {

/// How a step's walk over a file is cut. Nothing of it changes bits. The Optimizer's constructor
/// throws ContractError for what is below 1 or above 2^30, 4096 and 256.
struct OffloadSize {
  std::int64_t block_elements = std::int64_t{1} << 18;  ///< Of each array, at once: 1 MiB.
  std::int64_t blocks = 8;                              ///< In memory at most.
  std::int64_t threads = 4;                             ///< Reads and writes at the same time.
};

/// Masters (of 16-bit parameters) and both moments are read and written once a step: they need not
/// lie where the model does. docs/offload.md. A value: nothing here throws or touches a disk; the
/// Optimizer's constructor does both (IoError where the folder will not do). Not thread-safe.
class Offload {
 public:
  enum Place : std::uint8_t {
    kNone,  ///< Beside the model.
    kHost,  ///< In the host's memory, also where the model lies on a GPU (docs/gpu.md).
  };

  /// Not on a disk.
  Offload(Place place = kNone) : on_host_(place == kHost) {}  // NOLINT: .offload(Offload::kHost)

  /// In one file a rank, made in `folder`, which must exist; ranks may name different ones. The
  /// file has no name from the beginning and is gone with the process, however that ends.
  static Offload kDisk(std::string folder) {  // NOLINT: reads like the places
    Offload offload;
    offload.on_disk_ = true;
    offload.folder_ = std::move(folder);
    return offload;
  }

  /// The calls that reach the disk, for tests. Default: the operating system's.
  Offload& calls(std::shared_ptr<IoCalls> calls) {
    calls_ = std::move(calls);
    return *this;
  }

  /// How a disk is walked over; of no meaning elsewhere.
  Offload& size(const OffloadSize& size) {
    size_ = size;
    return *this;
  }

  /// Offload::kHost was asked for.
  bool on_host() const noexcept { return on_host_; }
  /// kDisk() made it.
  bool on_disk() const noexcept { return on_disk_; }
  /// Empty: not on a disk.
  const std::string& folder() const noexcept { return folder_; }
  /// As set, or the default.
  const OffloadSize& size() const noexcept { return size_; }
  /// Null: the operating system's.
  const std::shared_ptr<IoCalls>& calls() const noexcept { return calls_; }

 private:
  bool on_host_;
  bool on_disk_ = false;
  std::string folder_;
  OffloadSize size_;
  std::shared_ptr<IoCalls> calls_;
};

}  // namespace zero
