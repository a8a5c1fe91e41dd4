#pragma once

/// Reads a checkpoint by its manifest alone: the HDF5 library has no part in it.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/common_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

class Hdf5Reader : public Reader {
 public:
  /// Checks everything but the data. Throws FormatError, IoError.
  Hdf5Reader(std::shared_ptr<FileSystem> files, std::string folder);

  const StepInfo& info() const override { return info_; }
  const CommonState& common() const override { return common_.state; }
  const std::map<std::string, Blob>& rank_blobs(int rank) const override;
  std::vector<std::string> states(std::int32_t parameter) const override;
  DType dtype(std::int32_t parameter, std::string_view state) const override;
  std::vector<Extent> extents(int rank, std::string_view state) const override;
  void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t end,
            std::span<std::byte> dst) const override;

 private:
  struct Block {
    const DatasetRecord* data = nullptr;
    std::uint64_t index = 0;
    std::vector<std::byte> bytes;
  };
  /// Of one source.
  struct Blocks {
    std::vector<std::byte> hashes;  // Empty: not read yet, or there is one block only.
    std::vector<bool> checked;      // Empty: none.
  };

  std::int32_t owner(std::int32_t parameter) const;
  std::span<const ShardSegment> segments(std::int32_t parameter, std::string_view state) const;
  std::shared_ptr<File> file(std::size_t index) const;
  std::string path(std::size_t index) const;
  Hash block_hash(const ShardSource& source, std::uint64_t block) const;
  bool is_checked(const ShardSource& source, std::uint64_t block) const;
  void load_block(const ShardSource& source, std::uint64_t block, std::span<std::byte> dst) const;
  bool copy_last_block(const ShardSource& source, std::uint64_t block, std::uint64_t skip,
                       std::span<std::byte> dst) const;
  void read_part(const ShardSource& source, std::uint64_t block, std::uint64_t skip,
                 std::span<std::byte> dst) const;
  void read_bytes(const ShardSource& source, std::uint64_t begin, std::span<std::byte> dst) const;

  const std::shared_ptr<FileSystem> files_;
  const std::string folder_;
  const Manifest manifest_;
  StepInfo info_;
  DecodedCommon common_;
  ShardIndex index_;

  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<File>> open_;
  mutable std::map<const DatasetRecord*, Blocks> blocks_;  // By data.
  mutable Block last_block_;
};

/// For list(): the manifest and the sizes, nothing more.
StepInfo info_from(const Manifest& manifest);

}  // namespace zero::checkpoint
