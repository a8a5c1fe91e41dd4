#pragma once

/// MANIFEST.json: what a checkpoint consists of, with the hash of everything.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/element_type.h"
#include "checkpoint/hash.h"

namespace zero::checkpoint {

struct DatasetRecord {
  std::string name;  ///< The full path inside the file.
  ElementType type;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< In the file; 0 if bytes is 0.
  std::uint64_t bytes = 0;
  Hash hash;
  friend bool operator==(const DatasetRecord&, const DatasetRecord&) = default;
};

struct FileRecord {
  std::string name;
  int rank = -1;  ///< -1 unless a shard.
  std::uint64_t size = 0;
  Hash hash;
  std::vector<DatasetRecord> datasets;  ///< By offset; those of no bytes first.
  std::string hdf5_version = {};  ///< Version of the HDF5 library that wrote it; of view.h5 only.
  /// Null if there is none.
  const DatasetRecord* find(std::string_view dataset) const noexcept;
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

struct Manifest {
  std::string attempt, created, run_id, writer;
  std::int64_t step = 0;
  int world_size = 1;
  int stage = 0;
  std::int64_t parameters = 0, groups = 0;
  std::uint64_t block_bytes = std::uint64_t{8} << 20;
  std::vector<FileRecord> files;  ///< common.h5, shards by rank, others.

  const FileRecord& common() const { return files[0]; }
  const FileRecord& shard(int rank) const { return files[static_cast<std::size_t>(rank) + 1]; }
  std::uint64_t bytes() const;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
inline constexpr int kFormatMajor = 1;
inline constexpr int kFormatMinor = 0;

/// The canonical text, with its own hash at its end.
std::string to_text(const Manifest& manifest);

/// Checks everything that docs/checkpoint_format.md lists under 1, 2 and 4 as far as the text alone
/// can tell. Throws FormatError, saying which member of which file or dataset is wrong.
Manifest parse_manifest(std::string_view text);

/// One file's record as the manifest would hold it, for receipts.
std::string to_text(const FileRecord& record);
FileRecord parse_file_record(std::string_view text);

/// Product of a shape; -1 beyond 2^62 or with a negative dimension.
std::int64_t checked_product(const std::vector<std::int64_t>& shape) noexcept;

}  // namespace zero::checkpoint
