#include "checkpoint/file_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "checkpoint/file_hasher.h"

namespace zero::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, as memory is");

constexpr std::size_t kHead = 4096;
constexpr std::size_t kBuffer = std::size_t{1} << 20;
/// Larger pieces are not copied.
constexpr std::size_t kDirect = std::size_t{256} << 10;
/// Nor are they written at once: hashing follows close behind.
constexpr std::size_t kChunk = std::size_t{1} << 20;
/// DatasetContent::fill is asked for so much at most.
constexpr std::size_t kFilled = std::size_t{256} << 10;

/// A file written from front to back, except for its head, which comes last: what was not finished
/// does not open.
class SequentialFile {
 public:
  SequentialFile(FileSystem& files, const std::string& path) : file_(files.create(path)) {
    buffer_.reserve(kBuffer);
  }

  void append(std::span<const std::byte> data) {
    const std::size_t to_head = std::min(kHead - head_.size(), data.size());
    head_.insert(head_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(to_head));
    size_ += to_head;
    data = data.subspan(to_head);
    if (data.size() >= kDirect) {
      flush();
      write_all(*file_, data, size_);
    } else {
      if (buffer_.size() + data.size() > kBuffer) flush();
      buffer_.insert(buffer_.end(), data.begin(), data.end());
    }
    size_ += data.size();
  }

  void finish() {
    flush();
    write_all(*file_, head_, 0);
    file_->fsync();
    file_->close();
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

/// Writes a file and hashes what it writes.
struct Output {
  std::vector<std::byte> buffer;  ///< Outlives the hasher, which reads it.
  SequentialFile file;
  FileHasher hasher;

  void append_metadata(const hdf5::Skeleton& skeleton, std::uint64_t end) {
    for_each_page(skeleton, file.size(), end, [&](std::span<const std::byte> bytes) {
      hasher.add(bytes);
      file.append(bytes);
    });
  }

  void append_data(std::span<const std::span<const std::byte>> pieces) {
    for (std::span<const std::byte> piece : pieces) {
      while (!piece.empty()) {
        const auto chunk = piece.first(std::min(piece.size(), kChunk));
        hasher.add_data(chunk);
        file.append(chunk);
        piece = piece.subspan(chunk.size());
      }
    }
  }

  void append_filled(const DatasetContent& content, std::uint64_t bytes) {
    buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kChunk)));
    while (bytes > 0) {
      const auto chunk =
          std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kChunk)));
      for (std::size_t at = 0; at < chunk.size(); at += kFilled) {
        content.fill(chunk.subspan(at, std::min(kFilled, chunk.size() - at)));
      }
      hasher.add_data(chunk);
      file.append(chunk);
      hasher.wait();  // The next chunk takes its place.
      bytes -= chunk.size();
    }
  }
};

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
  std::vector<std::byte> blocks;  // Outlives the hasher.
  Output out{{}, SequentialFile(files, path), FileHasher(skeleton.size, block_bytes)};
  FileRecord record{content.name, content.rank, skeleton.size, {}, {}, {}};
  for (Planned& dataset : planned) {
    if (dataset.record.bytes > 0) out.append_metadata(skeleton, dataset.record.offset);
    out.hasher.begin_dataset(dataset.record.bytes, dataset.in_blocks);
    if (dataset.content != nullptr && dataset.content->fill) {
      out.append_filled(*dataset.content, dataset.record.bytes);
    } else if (dataset.content != nullptr) {
      out.append_data(dataset.content->pieces);
    } else {
      const std::span<const std::byte> piece(blocks);
      out.append_data({&piece, 1});
    }
    FileHasher::Dataset hashed = out.hasher.finish_dataset();
    dataset.record.hash = hashed.hash;
    blocks = std::move(hashed.blocks);
    record.datasets.push_back(dataset.record);
  }
  out.append_metadata(skeleton, skeleton.size);
  record.hash = out.hasher.finish();
  out.file.finish();
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
