#include "checkpoint/inspect.h"

#include <algorithm>
#include <utility>

#include "checkpoint/file_reader.h"
#include "checkpoint/shard_file.h"

namespace zero::checkpoint {
namespace {

ShardIndex read_shards(FileSystem& files, const std::string& directory, const Manifest& manifest,
                       const std::vector<ParameterSpec>& parameters) {
  ShardIndex index;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(manifest.world_size); ++i) {
    const std::string path = join_path(directory, manifest.files[i].name);
    add_shard(index, *files.open(path), path, manifest, i, parameters);
  }
  sort_segments(index);
  const std::string gap = problem_of_tiling(index, parameters);
  if (!gap.empty()) {
    throw FormatError("a checkpoint is not whole, use another one: " + gap + ": " + directory);
  }
  return index;
}

std::vector<Piece> pieces_of(const ShardIndex& index, const Manifest& manifest) {
  std::vector<Piece> pieces;
  for (const auto& [state, segments] : index.segments) {
    for (const ShardSegment& segment : segments) {
      const ShardSource& source = index.sources[segment.source];
      const FileRecord& file = manifest.files[source.file];
      const auto skipped = static_cast<std::uint64_t>(segment.offset * size_of(source.dtype));
      pieces.push_back({state, source.dtype, segment.extent, file.rank, file.name,
                        source.data->offset + skipped});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.extent.parameter < b.extent.parameter;  // by state and begin they are already
  });
  return pieces;
}

}  // namespace

Inspection inspect(FileSystem& files, const std::string& directory) {
  Inspection result;
  result.manifest = read_manifest(files, directory);
  const std::string wrong = problem_of_sizes(files, directory, result.manifest);
  if (!wrong.empty()) {
    throw FormatError("a checkpoint is damaged, use another one: " + wrong);
  }
  const std::string path = join_path(directory, result.manifest.common().name);
  DecodedCommon common = decode_common(*files.open(path), path, result.manifest);
  result.common = std::move(common.state);
  result.rank_blobs = std::move(common.rank_blobs);
  for (std::size_t rank = 0; rank < result.rank_blobs.size(); ++rank)
    result.memory.push_back(memory_of(result.rank_blobs[rank], static_cast<int>(rank)));
  const ShardIndex index = read_shards(files, directory, result.manifest, result.common.parameters);
  result.pieces = pieces_of(index, result.manifest);
  return result;
}

}  // namespace zero::checkpoint
