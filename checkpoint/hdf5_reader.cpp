#include "checkpoint/hdf5_reader.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kMaxOpenFiles = 64;

}  // namespace

StepInfo info_from(const Manifest& manifest) {
  return {manifest.step,       manifest.run_id, manifest.attempt,
          manifest.world_size, manifest.stage,  manifest.bytes()};
}

Hdf5Reader::Hdf5Reader(std::shared_ptr<FileSystem> files, std::string folder)
    : files_(std::move(files)),
      folder_(std::move(folder)),
      manifest_(read_manifest(*files_, folder_)),
      info_(info_from(manifest_)) {
  const std::string wrong = problem_of_sizes(*files_, folder_, manifest_);
  if (!wrong.empty()) {
    throw FormatError("a checkpoint is damaged, use another one: " + wrong);
  }
  common_ = decode_common(*file(0), path(0), manifest_);
  const std::vector<ParameterSpec>& parameters = common_.state.parameters;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(manifest_.world_size); ++i) {
    add_shard(index_, *file(i), path(i), manifest_, i, parameters);
  }
  sort_segments(index_);
  const std::string gap = problem_of_tiling(index_, parameters);
  if (!gap.empty()) {
    throw FormatError("a checkpoint is not whole, use another one: " + gap + ": " + folder_);
  }
}

std::string Hdf5Reader::path(std::size_t index) const {
  return join_path(folder_, manifest_.files[index].name);
}

std::shared_ptr<File> Hdf5Reader::file(std::size_t index) const {
  const std::lock_guard guard(mutex_);
  const auto found = open_.find(index);
  if (found != open_.end()) return found->second;
  if (open_.size() >= kMaxOpenFiles) open_.clear();
  std::shared_ptr<File> file = files_->open(path(index));
  if (file->size() != manifest_.files[index].size) {
    throw FormatError("a file has changed its size, use another checkpoint: " + path(index));
  }
  return open_[index] = file;
}

const std::map<std::string, Blob>& Hdf5Reader::rank_blobs(int rank) const {
  ZERO_REQUIRE(rank >= 0 && rank < manifest_.world_size,
               "no such rank saved this checkpoint: rank " + std::to_string(rank) + " of " +
                   std::to_string(manifest_.world_size));
  return common_.rank_blobs[static_cast<std::size_t>(rank)];
}

std::int32_t Hdf5Reader::owner(std::int32_t parameter) const {
  const auto& parameters = common_.state.parameters;
  ZERO_REQUIRE(parameter >= 0 && static_cast<std::size_t>(parameter) < parameters.size(),
               "no such parameter in this checkpoint: row " + std::to_string(parameter));
  const std::int32_t alias_of = parameters[static_cast<std::size_t>(parameter)].alias_of;
  return alias_of == -1 ? parameter : alias_of;
}

std::span<const ShardSegment> Hdf5Reader::segments(std::int32_t parameter,
                                                   std::string_view state) const {
  const auto found = index_.segments.find(state);
  if (found == index_.segments.end()) return {};
  const auto [first, last] = std::equal_range(found->second.begin(), found->second.end(),
                                              ShardSegment{{owner(parameter), 0, 0}, 0, 0},
                                              [](const ShardSegment& a, const ShardSegment& b) {
                                                return a.extent.parameter < b.extent.parameter;
                                              });
  return {first, last};
}

std::vector<std::string> Hdf5Reader::states(std::int32_t parameter) const {
  owner(parameter);
  std::vector<std::string> names;
  for (const auto& [state, all] : index_.segments) {
    if (!segments(parameter, state).empty()) names.push_back(state);
  }
  return names;
}

DType Hdf5Reader::dtype(std::int32_t parameter, std::string_view state) const {
  const auto held = segments(parameter, state);
  ZERO_REQUIRE(!held.empty(), "a parameter has no such state in this checkpoint: row " +
                                  std::to_string(parameter) + ", state '" + std::string(state) +
                                  "'");
  return index_.sources[held[0].source].dtype;
}

std::vector<Extent> Hdf5Reader::extents(int rank, std::string_view state) const {
  rank_blobs(rank);
  std::vector<Extent> result;
  const auto found = index_.segments.find(state);
  if (found == index_.segments.end()) return result;
  for (const ShardSegment& segment : found->second) {
    if (index_.sources[segment.source].file == static_cast<std::size_t>(rank) + 1) {
      result.push_back(segment.extent);
    }
  }
  return result;
}

/// The hash that one block of a source must have.
Hash Hdf5Reader::block_hash(const ShardSource& source, std::uint64_t block) const {
  if (source.blocks == nullptr) return source.data->hash;
  const std::shared_ptr<File> opened = file(source.file);
  const std::lock_guard guard(mutex_);
  std::vector<std::byte>& hashes = blocks_[source.data].hashes;
  if (hashes.empty()) hashes = read_dataset(*opened, path(source.file), *source.blocks);
  Hash hash;
  std::memcpy(hash.bytes.data(), hashes.data() + block * hash.bytes.size(), hash.bytes.size());
  return hash;
}

bool Hdf5Reader::is_checked(const ShardSource& source, std::uint64_t block) const {
  const std::lock_guard guard(mutex_);
  const auto found = blocks_.find(source.data);
  return found != blocks_.end() && block < found->second.checked.size() &&
         found->second.checked[block];
}

/// Reads and checks a whole block. dst has its size.
void Hdf5Reader::load_block(const ShardSource& source, std::uint64_t block,
                            std::span<std::byte> dst) const {
  const std::string name = path(source.file);
  read_all(*file(source.file), dst, source.data->offset + block * manifest_.block_bytes, name);
  if (hash_of(dst) != block_hash(source, block)) {
    throw FormatError("a block is damaged, its hash does not agree; use another checkpoint: " +
                      name + source.data->name + ", block " + std::to_string(block));
  }
  const std::lock_guard guard(mutex_);
  std::vector<bool>& checked = blocks_[source.data].checked;
  if (checked.empty()) checked.resize(source.data->bytes / manifest_.block_bytes + 1);
  checked[block] = true;
}

/// False if the last block that was kept is another one.
bool Hdf5Reader::copy_last_block(const ShardSource& source, std::uint64_t block, std::uint64_t skip,
                                 std::span<std::byte> dst) const {
  const std::lock_guard guard(mutex_);
  if (last_block_.data != source.data || last_block_.index != block) return false;
  std::memcpy(dst.data(), last_block_.bytes.data() + skip, dst.size());
  return true;
}

/// A part of one block. Whoever needs slices of a block again and again must not pay for the whole
/// block each time: once it has been checked, only the slice is read.
void Hdf5Reader::read_part(const ShardSource& source, std::uint64_t block, std::uint64_t skip,
                           std::span<std::byte> dst) const {
  if (copy_last_block(source, block, skip, dst)) return;
  const std::uint64_t begin = block * manifest_.block_bytes;
  if (is_checked(source, block)) {
    read_all(*file(source.file), dst, source.data->offset + begin + skip, path(source.file));
    return;
  }
  Block scratch;
  {
    const std::lock_guard guard(mutex_);
    std::swap(scratch, last_block_);
  }
  scratch.data = nullptr;
  scratch.bytes.resize(std::min(manifest_.block_bytes, source.data->bytes - begin));
  load_block(source, block, scratch.bytes);
  std::memcpy(dst.data(), scratch.bytes.data() + skip, dst.size());
  scratch.data = source.data;
  scratch.index = block;
  const std::lock_guard guard(mutex_);
  std::swap(scratch, last_block_);
}

void Hdf5Reader::read_bytes(const ShardSource& source, std::uint64_t begin,
                            std::span<std::byte> dst) const {
  const std::uint64_t block_bytes = manifest_.block_bytes;
  while (!dst.empty()) {
    const std::uint64_t block = begin / block_bytes;
    const std::uint64_t block_begin = block * block_bytes;
    const std::uint64_t size = std::min(block_bytes, source.data->bytes - block_begin);
    const std::uint64_t skip = begin - block_begin;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(size - skip, dst.size()));
    if (count == size) {
      load_block(source, block, dst.first(count));
    } else {
      read_part(source, block, skip, dst.first(count));
    }
    begin += count;
    dst = dst.subspan(count);
  }
}

void Hdf5Reader::read(std::int32_t parameter, std::string_view state, std::int64_t begin,
                      std::int64_t end, std::span<std::byte> dst) const {
  const auto& spec = common_.state.parameters[static_cast<std::size_t>(owner(parameter))];
  const std::string where = describe(Extent{parameter, begin, end}, common_.state.parameters) +
                            ", state '" + std::string(state) + "'";
  ZERO_REQUIRE(begin >= 0 && begin <= end && end <= spec.numel(),
               "a read passes its parameter: " + where);
  if (begin == end) {
    ZERO_REQUIRE(dst.empty(), "the destination has another size than the read: " + where);
    return;
  }
  const std::int64_t width = size_of(dtype(parameter, state));
  ZERO_REQUIRE(dst.size() == static_cast<std::size_t>((end - begin) * width),
               "the destination has another size than the read: " + where);
  const auto held = segments(parameter, state);
  auto segment = std::partition_point(held.begin(), held.end(),
                                      [&](const ShardSegment& s) { return s.extent.end <= begin; });
  for (std::int64_t at = begin; at < end; ++segment) {
    const std::int64_t stop = std::min(end, segment->extent.end);
    const std::int64_t offset = segment->offset + at - segment->extent.begin;
    read_bytes(index_.sources[segment->source], static_cast<std::uint64_t>(offset * width),
               dst.subspan(static_cast<std::size_t>((at - begin) * width),
                           static_cast<std::size_t>((stop - at) * width)));
    at = stop;
  }
}

std::unique_ptr<Reader> open_checkpoint(std::shared_ptr<FileSystem> files, std::string directory) {
  return std::make_unique<Hdf5Reader>(std::move(files), std::move(directory));
}

}  // namespace zero::checkpoint
