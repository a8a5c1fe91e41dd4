#pragma once

/// The hashes of a file that is being written: of the whole, of each dataset, of each block.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/hash.h"

namespace zero::checkpoint {

/// Hashes what it is given, in that order; large files on a thread of its own, while the caller
/// writes. Bytes must stay as they are until wait(), finish_dataset() or finish() returned after
/// them, or this is destroyed. One thread calls.
class FileHasher {
 public:
  /// `file_bytes`: about how many will come.
  FileHasher(std::uint64_t file_bytes, std::uint64_t block_bytes);
  ~FileHasher();

  /// Bytes of the file that belong to no dataset.
  void add(std::span<const std::byte> data);

  /// What add_data brings until finish_dataset() is one dataset of so many bytes.
  void begin_dataset(std::uint64_t bytes, bool in_blocks);
  void add_data(std::span<const std::byte> data);
  struct Dataset {
    Hash hash;
    std::vector<std::byte> blocks;  ///< 16 bytes for each block; empty unless in_blocks.
  };
  Dataset finish_dataset();

  /// Returns when all that was given has been hashed.
  void wait();

  /// Of everything.
  Hash finish();

 private:
  class Hashes;
  class Thread;
  std::unique_ptr<Hashes> hashes_;
  std::unique_ptr<Thread> thread_;  ///< Null: the caller's own.
};

}  // namespace zero::checkpoint
