#pragma once

/// Reads the files of a checkpoint: only where the manifest says that something is, and only as
/// much as is there.

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

/// Reads and parses folder/MANIFEST.json. Throws FormatError, IoError.
Manifest read_manifest(FileSystem& files, const std::string& folder);

/// Empty if every file of the manifest that is needed to load is a regular one of the right size,
/// otherwise what is wrong with which. The view is not needed.
std::string problem_of_sizes(FileSystem& files, const std::string& folder,
                             const Manifest& manifest);

/// Reads all of common.h5. Throws FormatError unless it has the hash that the manifest gives,
/// IoError. Loading checks no more of it than its datasets; whoever makes a checkpoint of another
/// one should not pass on what is damaged, wherever that is.
void require_whole_common(FileSystem& files, const std::string& folder);

/// Throws FormatError unless a dataset may be read into memory as a whole: it has at most
/// kMostTableBytes, and beyond kSmallTableBytes at least one byte in kMostSparse is stored, so that
/// a file of a few blocks cannot ask for terabytes.
void require_stored(File& file, const std::string& name, const DatasetRecord& record);

inline constexpr std::uint64_t kMostTableBytes = std::uint64_t{16} << 30;
inline constexpr std::uint64_t kSmallTableBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMostSparse = 64;

/// A whole dataset, its hash checked. REQUIRES that the file has the record's size. `name` is the
/// file's, for messages. Not for `data` that has blocks. Throws FormatError, also as
/// require_stored().
std::vector<std::byte> read_dataset(File& file, const std::string& name,
                                    const DatasetRecord& record);

/// The same as numbers. Throws FormatError unless the dataset has that type.
std::vector<std::int64_t> as_int64(const std::vector<std::byte>& bytes);

}  // namespace zero::checkpoint
