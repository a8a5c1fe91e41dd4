#pragma once

/// What a checkpoint holds and where it lies on disk, for people and programs that look at it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/common_file.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/rank_memory.h"

namespace zero::checkpoint {

/// A run of elements of one parameter's state in one shard.
struct Piece {
  std::string state;
  DType dtype = DType::kFloat32;
  Extent extent;
  int rank = 0;
  std::string file;          ///< Its name inside the directory.
  std::uint64_t offset = 0;  ///< Bytes from the file's begin to the first element.

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>((extent.end - extent.begin) * size_of(dtype));
  }
};

struct Inspection {
  Manifest manifest;
  CommonState common;
  std::vector<Blobs> rank_blobs;
  std::vector<std::optional<RankMemory>> memory;  ///< By rank; nothing where it does not say.
  std::vector<Piece> pieces;  ///< By parameter, state, begin. An alias has none of its own.
};

/// Checks all that opening a checkpoint checks; no data are read. Throws FormatError, IoError.
Inspection inspect(FileSystem& files, const std::string& directory);

}  // namespace zero::checkpoint
