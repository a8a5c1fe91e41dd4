#pragma once

/// The Store of docs/checkpoint_format.md: a directory for each step, HDF5 files inside.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/file_system.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

/// Long enough for whoever removes old checkpoints beside a run that saves.
inline constexpr std::chrono::seconds kPatientLockWait{5};

/// How a store of HDF5 files saves and removes. Nothing here matters to who reads.
struct Hdf5StoreOptions {
  /// false: for file systems without locks. Then only one job may save into the root, and leftovers
  /// of crashes stay.
  bool lock = true;
  /// How long a save or a removal waits for the lock where somebody else holds it, as one who
  /// removes old checkpoints does for a moment.
  std::chrono::milliseconds lock_wait{0};
  /// Written into the manifest for people; UTF-8 without control characters, of at most 64 bytes,
  /// may be empty.
  std::string created;
  /// Written into the manifest for people; likewise, at most 256 bytes.
  std::string writer = "libzero";
  /// Granularity of hashes on reading: a power of two, 64 to 2^30.
  std::uint64_t block_bytes = std::uint64_t{8} << 20;
  /// Writes view.h5, virtual datasets that show every state of every parameter whole. A checkpoint
  /// with very many of them (docs/checkpoint_format.md) gets none; commit() says so in a warning.
  bool view = true;
  /// Makes the id of a save, 16 lowercase hexadecimal digits. Default: random.
  std::function<std::string()> new_attempt;
};

/// `root` is made by the first save; its parent must exist. Touches no file yet. Throws
/// ContractError for an empty root and for options that break their rules. begin() takes the root's
/// lock until its Writer commits or aborts, remove() while it works; where another process has it
/// for longer than lock_wait, they throw ContractError. Without locks it is for the caller to save
/// and remove one at a time.
std::unique_ptr<Store> make_hdf5_store(std::shared_ptr<FileSystem> files, std::string root,
                                       Hdf5StoreOptions options = {});

/// A checkpoint by its directory, whatever that is called. Throws FormatError for what is no whole
/// checkpoint (elements are checked by Reader::read), IoError.
std::unique_ptr<Reader> open_checkpoint(std::shared_ptr<FileSystem> files, std::string directory);

}  // namespace zero::checkpoint
