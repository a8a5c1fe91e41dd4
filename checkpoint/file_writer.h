#pragma once

/// Writes one HDF5 file: skeleton and data in one pass, hashed on the way.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/hdf5_skeleton.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

struct DatasetContent {
  hdf5::DatasetSpec spec;
  std::vector<std::span<const std::byte>>
      pieces;  ///< One after the other: exactly the dataset's bytes.
  /// A dataset "blocks" beside it gets the hash of each block, if there is more than one.
  bool in_blocks = false;
  /// Instead of pieces: gives the next dst.size() bytes of the dataset, whole elements and at most
  /// 256 KiB. Called on the writing thread.
  std::function<void(std::span<std::byte> dst)> fill = {};
};

struct FileContent {
  std::string name;
  int rank = -1;
  std::vector<hdf5::AttributeSpec> attributes;
  std::vector<DatasetContent> datasets;
  std::vector<hdf5::VirtualSpec> virtuals = {};
  std::vector<hdf5::LinkSpec> links = {};
  bool indexed_links = false;
};

/// Creates folder/content.name; on return its bytes are on the disk (its name is not: the folder
/// needs an fsync). Throws FileError, ENOSPC before anything is written if the disk has not the
/// room.
FileRecord write_hdf5_file(FileSystem& files, const std::string& folder, const FileContent& content,
                           std::uint64_t block_bytes);

/// The hash that the file gets, if it has no datasets but virtual ones.
Hash hash_of_structure(const FileContent& content);

/// Creates a small file of the given text, likewise.
void write_text_file(FileSystem& files, const std::string& path, std::string_view text);

/// "/states/master/float32/data" -> "/states/master/float32/blocks".
std::string blocks_name(std::string_view data_name);

}  // namespace zero::checkpoint
