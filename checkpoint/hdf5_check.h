#pragma once

/// Whether the HDF5 structure of a file is what the manifest says, and nothing else.

#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/hdf5_skeleton.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint::hdf5 {

/// Opens the file read-only through `file` and compares: every dataset at its offset, with its type
/// and shape, contiguous, without filters and external storage, reached by hard links only; no
/// other dataset; the root's attributes. Returns what differs. REQUIRES that the file's hash was
/// right: the library is not made for hostile bytes.
std::vector<std::string> check_structure(File& file, const FileRecord& record,
                                         const std::vector<AttributeSpec>& attributes);

}  // namespace zero::checkpoint::hdf5
