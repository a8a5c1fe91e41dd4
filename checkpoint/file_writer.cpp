#include "checkpoint/file_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <deque>

namespace zero::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, as memory is");

constexpr std::size_t kHead = 4096;
constexpr std::size_t kBuffer = std::size_t{1} << 20;
/// Larger pieces are not copied; small enough that hashing and writing find them in the cache.
constexpr std::size_t kChunk = std::size_t{256} << 10;

/// A file written from front to back, except for its head, which comes last: what was not finished
/// does not open.
class SequentialFile {
 public:
  SequentialFile(FileSystem& files, const std::string& path) : file_(files.create(path)) {
    buffer_.reserve(kBuffer);
  }

  void append(std::span<const std::byte> data) {
    hasher_.add(data);
    const std::size_t to_head = std::min(kHead - head_.size(), data.size());
    head_.insert(head_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(to_head));
    size_ += to_head;
    data = data.subspan(to_head);
    if (data.size() >= kChunk) {
      flush();
      write_all(*file_, data, size_);
    } else {
      if (buffer_.size() + data.size() > kBuffer) flush();
      buffer_.insert(buffer_.end(), data.begin(), data.end());
    }
    size_ += data.size();
  }

  Hash finish() {
    flush();
    write_all(*file_, head_, 0);
    file_->fsync();
    file_->close();
    return hasher_.value();
  }

  std::uint64_t size() const noexcept { return size_; }

 private:
  void flush() {
    write_all(*file_, buffer_, size_ - buffer_.size());
    buffer_.clear();
  }

  std::unique_ptr<File> file_;
  std::vector<std::byte> head_, buffer_;
  std::uint64_t size_ = 0;
  Hasher hasher_;
};

/// Hashes a dataset, block by block if it has several.
class DatasetHasher {
 public:
  DatasetHasher(std::uint64_t block_bytes, bool in_blocks)
      : block_bytes_(block_bytes), in_blocks_(in_blocks) {}

  /// How many bytes the next add() may bring at most.
  std::size_t room() const noexcept {
    return in_blocks_ ? std::min<std::size_t>(block_bytes_ - in_block_, kChunk) : kChunk;
  }
  void add(std::span<const std::byte> data) {
    hasher_.add(data);
    in_block_ += data.size();
    if (in_blocks_ && in_block_ == block_bytes_) end_block();
  }
  Hash finish() {
    if (!in_blocks_) return hasher_.value();
    if (in_block_ > 0) end_block();
    return hash_of(blocks_);
  }
  std::vector<std::byte> take_blocks() { return std::move(blocks_); }

 private:
  void end_block() {
    const Hash hash = hasher_.value();
    blocks_.insert(blocks_.end(), hash.bytes.begin(), hash.bytes.end());
    hasher_.reset();
    in_block_ = 0;
  }

  std::uint64_t block_bytes_;
  bool in_blocks_;
  std::uint64_t in_block_ = 0;
  Hasher hasher_;
  std::vector<std::byte> blocks_;
};

/// One dataset of the file as it will be written, those of block hashes included.
struct Planned {
  const DatasetContent* content = nullptr;  ///< Null: the hashes of the blocks of the one before.
  DatasetRecord record;
  bool in_blocks = false;
};

std::uint64_t bytes_of(const hdf5::DatasetSpec& spec) {
  return static_cast<std::uint64_t>(checked_product(spec.shape) * spec.type.width);
}

std::vector<Planned> plan(const FileContent& content, std::uint64_t block_bytes) {
  std::vector<Planned> planned;
  for (const DatasetContent& dataset : content.datasets) {
    const std::uint64_t bytes = bytes_of(dataset.spec);
    const bool in_blocks = dataset.in_blocks && bytes > block_bytes;
    planned.push_back({&dataset,
                       {dataset.spec.name, dataset.spec.type, dataset.spec.shape, 0, bytes, {}},
                       in_blocks});
    if (!in_blocks) continue;
    const std::uint64_t count = (bytes + block_bytes - 1) / block_bytes;
    planned.push_back({nullptr,
                       {blocks_name(dataset.spec.name),
                        ElementType::of(DType::kUInt8),
                        {static_cast<std::int64_t>(count), 16},
                        0,
                        count * 16,
                        {}},
                       false});
  }
  return planned;
}

hdf5::Skeleton place(const FileContent& content, std::vector<Planned>& planned) {
  hdf5::FileSpec spec{
      content.attributes, {}, content.virtuals, content.links, content.indexed_links};
  for (const Planned& dataset : planned) {
    spec.datasets.push_back({dataset.record.name, dataset.record.type, dataset.record.shape});
  }
  hdf5::Skeleton skeleton = hdf5::make_skeleton(spec);
  for (std::size_t i = 0; i < planned.size(); ++i) planned[i].record.offset = skeleton.offsets[i];
  // The file is written from front to back. Blocks are hashed before they are written: they must
  // come after their data.
  std::stable_sort(planned.begin(), planned.end(), [](const Planned& a, const Planned& b) {
    return a.record.offset < b.record.offset;
  });
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const DatasetRecord& record = planned[i].record;
    const bool follows =
        i > 0 && planned[i - 1].in_blocks && blocks_name(planned[i - 1].record.name) == record.name;
    if (planned[i].content == nullptr && !follows) {
      throw FormatError("the HDF5 library placed a dataset unexpectedly, report its version: " +
                        content.name + record.name);
    }
    if (record.bytes > 0 && (record.offset < end || record.offset + record.bytes > skeleton.size)) {
      throw FormatError("the HDF5 library made datasets overlap, report its version: " +
                        content.name + record.name);
    }
    end = std::max(end, record.offset + record.bytes);
  }
  return skeleton;
}

/// Calls visit with the bytes of the structure, page by page.
template <class Visit>
void for_each_page(const hdf5::Skeleton& skeleton, std::uint64_t begin, std::uint64_t end,
                   Visit visit) {
  static constexpr std::byte kZeros[kHead] = {};
  while (begin < end) {
    const std::uint64_t in_page = begin % kHead;
    const std::size_t count = std::min<std::uint64_t>(kHead - in_page, end - begin);
    const auto page = skeleton.metadata.find(begin - in_page);
    visit(page == skeleton.metadata.end()
              ? std::span(kZeros, count)
              : std::span<const std::byte>(page->second).subspan(in_page, count));
    begin += count;
  }
}

void append_metadata(SequentialFile& file, const hdf5::Skeleton& skeleton, std::uint64_t end) {
  for_each_page(skeleton, file.size(), end, [&](auto bytes) { file.append(bytes); });
}

void append_data(SequentialFile& file, std::span<const std::span<const std::byte>> pieces,
                 DatasetHasher& hasher) {
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      const auto chunk = piece.first(std::min(piece.size(), hasher.room()));
      hasher.add(chunk);
      file.append(chunk);
      piece = piece.subspan(chunk.size());
    }
  }
}

void append_filled(SequentialFile& file, const DatasetContent& content, std::uint64_t bytes,
                   DatasetHasher& hasher) {
  std::vector<std::byte> chunk;
  while (bytes > 0) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, hasher.room())));
    content.fill(chunk);
    hasher.add(chunk);
    file.append(chunk);
    bytes -= chunk.size();
  }
}

void require_room(FileSystem& files, const std::string& path, std::uint64_t bytes) {
  if (files.free_bytes(parent_path(path)) < bytes) {
    throw FileError("create (" + std::to_string(bytes) + " bytes)", path, ENOSPC);
  }
}

}  // namespace

std::string blocks_name(std::string_view data_name) {
  return parent_path(data_name) + "/blocks";
}

FileRecord write_hdf5_file(FileSystem& files, const std::string& folder, const FileContent& content,
                           std::uint64_t block_bytes) {
  std::vector<Planned> planned = plan(content, block_bytes);
  const hdf5::Skeleton skeleton = place(content, planned);
  const std::string path = join_path(folder, content.name);
  require_room(files, path, skeleton.size);
  SequentialFile file(files, path);
  FileRecord record{content.name, content.rank, skeleton.size, {}, {}, {}};
  std::vector<std::byte> blocks;
  for (Planned& dataset : planned) {
    if (dataset.record.bytes > 0) append_metadata(file, skeleton, dataset.record.offset);
    DatasetHasher hasher(block_bytes, dataset.in_blocks);
    if (dataset.content != nullptr && dataset.content->fill) {
      append_filled(file, *dataset.content, dataset.record.bytes, hasher);
    } else if (dataset.content != nullptr) {
      append_data(file, dataset.content->pieces, hasher);
    } else {
      const std::span<const std::byte> piece(blocks);
      append_data(file, {&piece, 1}, hasher);
    }
    dataset.record.hash = hasher.finish();
    blocks = hasher.take_blocks();
    record.datasets.push_back(dataset.record);
  }
  append_metadata(file, skeleton, skeleton.size);
  record.hash = file.finish();
  return record;
}

Hash hash_of_structure(const FileContent& content) {
  std::vector<Planned> planned = plan(content, 0);
  const hdf5::Skeleton skeleton = place(content, planned);
  Hasher hasher;
  for_each_page(skeleton, 0, skeleton.size, [&](auto bytes) { hasher.add(bytes); });
  return hasher.value();
}

void write_text_file(FileSystem& files, const std::string& path, std::string_view text) {
  const std::unique_ptr<File> file = files.create(path);
  write_all(*file, std::as_bytes(std::span(text)), 0);
  file->fsync();
  file->close();
}

}  // namespace zero::checkpoint
