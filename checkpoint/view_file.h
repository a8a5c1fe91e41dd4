#pragma once

/// view.h5: virtual datasets over the shards that show every state of every parameter whole.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_writer.h"
#include "checkpoint/shard_file.h"

namespace zero::checkpoint {

/// Beyond these a checkpoint has no view: the HDF5 library takes about 0.1 ms for each.
inline constexpr std::size_t kMaxViewDatasets = 4096;
inline constexpr std::size_t kMaxViewMappings = 16384;

struct View {
  FileContent content;
  std::vector<std::string> left_out;  ///< Parameters whose names HDF5 has no place for.
};

/// The view that a checkpoint of this manifest and index has: the same for the writer and for
/// whoever checks it. Nothing beyond the limits. REQUIRES sort_segments, and extents that tile.
std::optional<View> make_view(const Manifest& manifest, const ShardIndex& index,
                              const std::vector<ParameterSpec>& parameters);

/// Empty, or why a file whose hash agrees with `record` is not that view. Where another version of
/// the HDF5 library wrote it, only the hash tells. The file itself is never given to the library.
std::string problem_of_view(const FileRecord& record, const Manifest& manifest,
                            const ShardIndex& index, const std::vector<ParameterSpec>& parameters);

/// A part of a box-shaped array.
struct Box {
  std::vector<std::int64_t> start, extent;
  friend bool operator==(const Box&, const Box&) = default;
};

/// Elements [begin, end) of the row-major order, not empty, as boxes: one after the other, and
/// each in its own row-major order, they are the same sequence. At most 2 * dimensions - 1.
std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, std::int64_t begin,
                          std::int64_t end);

}  // namespace zero::checkpoint
