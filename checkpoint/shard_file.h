#pragma once

/// shard-RRRRR-of-NNNNN.h5: what one rank holds.

#include <deque>
#include <string>
#include <vector>

#include "checkpoint/file_writer.h"
#include "checkpoint/training_state.h"

namespace zero::checkpoint {

/// Keeps the tables that its content points to; the state and its memory stay the caller's.
struct ShardContent {
  FileContent content;
  std::deque<std::vector<std::int64_t>> tables;
};

/// REQUIRES a validated state.
ShardContent encode_shard(const RankState& state, const CommonState& common, int rank,
                          int world_size);

/// One `data` of one shard.
struct ShardSource {
  std::size_t file = 0;  ///< In the manifest's list.
  const DatasetRecord* data = nullptr;
  const DatasetRecord* blocks = nullptr;  ///< Null: data is one block.
  std::string state;
  DType dtype = DType::kFloat32;
};

struct ShardSegment {
  Extent extent;
  std::int64_t offset = 0;  ///< Of extent.begin, in elements of the source's data.
  std::size_t source = 0;
};

/// Who holds what, over all shards. Points into the manifest that it was made from.
struct ShardIndex {
  std::vector<ShardSource> sources;  ///< By file, then as in the manifest.
  /// By state; sorted by parameter, then begin.
  std::map<std::string, std::vector<ShardSegment>, std::less<>> segments;
};

/// Adds what a shard's tables say. Throws FormatError for whatever breaks the format's rules inside
/// the one file.
void add_shard(ShardIndex& index, File& file, const std::string& name, const Manifest& manifest,
               std::size_t file_index, const std::vector<ParameterSpec>& parameters);

/// Call once, after the last shard.
void sort_segments(ShardIndex& index);

/// Empty if the extents tile every parameter as the format demands, otherwise the first gap or
/// overlap.
std::string problem_of_tiling(const ShardIndex& index,
                              const std::vector<ParameterSpec>& parameters);

/// All extents of parts of states, without a file: the same rules for any Store.
struct HeldExtent {
  std::string state;
  DType dtype = DType::kFloat32;
  Extent extent;
};
std::string problem_of_tiling(std::vector<HeldExtent> held,
                              const std::vector<ParameterSpec>& parameters);

}  // namespace zero::checkpoint
