#pragma once

/// Whether a checkpoint is whole, to the last byte.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

struct VerifyOptions {
  /// Only the manifest, names and sizes of files, tables and extents: no data are read.
  bool quick = false;
  /// Called now and then, with bytes hashed so far and in all. Returns false to stop.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
  /// false: leaves out whether the HDF5 structure is what the manifest says, which the HDF5 library
  /// tells. It is not made for hostile bytes, and hashes do not keep those away: for files from
  /// strangers.
  bool structure = true;
};

struct Finding {
  std::string file;         ///< Its name inside the directory; empty: the directory itself.
  std::string dataset;      ///< Empty: not inside one.
  std::int64_t block = -1;  ///< Of block_bytes bytes of the dataset; -1: not known.
  std::string problem;
};

/// "shard-00000-of-00002.h5, /states/master/float32/data, block 3: ..."
std::string to_text(const Finding& finding);

struct Verification {
  std::vector<Finding> findings;  ///< Empty: whole, as far as was looked.
  std::uint64_t bytes = 0;        ///< Hashed.
  bool stopped = false;           ///< progress said so.
};

/// Every hash, size, bound and cross-reference of docs/checkpoint_format.md. Damage is a finding,
/// never an exception. Throws IoError if the file system refuses to read.
Verification verify(FileSystem& files, const std::string& directory,
                    const VerifyOptions& options = {});

}  // namespace zero::checkpoint
