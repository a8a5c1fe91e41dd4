#include "checkpoint/file_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

}  // namespace

Manifest read_manifest(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  std::unique_ptr<File> file;
  try {
    file = files.open(path);
  } catch (const FileError& error) {
    if (error.code() != ENOENT && error.code() != ELOOP && error.code() != EINVAL) throw;
    throw FormatError("the manifest is missing or no regular file, this is no checkpoint: " + path);
  }
  const std::uint64_t size = file->size();
  if (size > kMaxManifestBytes) {
    throw FormatError("the manifest is larger than 64 MiB, this is no checkpoint: " + path);
  }
  std::string text(size, '\0');
  read_all(*file, std::as_writable_bytes(std::span(text)), 0, path);
  try {
    return parse_manifest(text);
  } catch (const FormatError& error) {
    throw FormatError(std::string(error.what()) + ": " + path);
  }
}

std::string problem_of_sizes(FileSystem& files, const std::string& folder,
                             const Manifest& manifest) {
  for (const FileRecord& record : manifest.files) {
    if (record.name == kViewName) continue;
    const std::string path = join_path(folder, record.name);
    const FileStatus status = files.status(path);
    if (status.kind == FileKind::kMissing) return "a file is missing: " + path;
    if (status.kind != FileKind::kRegular) return "a file is no regular file: " + path;
    if (status.size != record.size) {
      return "a file has " + std::to_string(status.size) + " bytes instead of " +
             std::to_string(record.size) + ": " + path;
    }
  }
  return {};
}

void require_whole_common(FileSystem& files, const std::string& folder) {
  const FileRecord record = read_manifest(files, folder).common();
  const std::string path = join_path(folder, record.name);
  const std::unique_ptr<File> file = files.open(path);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kChunk, record.size));
  Hasher hasher;
  for (std::uint64_t at = 0; at < record.size; at += buffer.size()) {
    const auto chunk = std::span(buffer).first(std::min<std::uint64_t>(kChunk, record.size - at));
    read_all(*file, chunk, at, path);
    hasher.add(chunk);
  }
  if (file->size() == record.size && hasher.value() == record.hash) return;
  throw FormatError(
      "a file is damaged, its hash does not agree with the manifest; use another checkpoint (zero "
      "verify says more): " +
      path);
}

void require_stored(File& file, const std::string& name, const DatasetRecord& record) {
  if (record.bytes <= kSmallTableBytes) return;
  const std::uint64_t least = record.bytes / kMostSparse;
  if (record.bytes <= kMostTableBytes &&
      file.stored_bytes(record.offset, record.bytes, least) >= least) {
    return;
  }
  throw FormatError(
      "a table is larger than 16 GiB, or almost nothing of it is stored (the file is sparse); use "
      "another checkpoint: " +
      name + record.name + ", " + std::to_string(record.bytes) + " bytes");
}

std::vector<std::byte> read_dataset(File& file, const std::string& name,
                                    const DatasetRecord& record) {
  require_stored(file, name, record);
  std::vector<std::byte> bytes(record.bytes);
  read_all(file, bytes, record.offset, name);
  if (hash_of(bytes) != record.hash) {
    throw FormatError("a dataset is damaged, its hash does not agree; use another checkpoint: " +
                      name + record.name);
  }
  return bytes;
}

std::vector<std::int64_t> as_int64(const std::vector<std::byte>& bytes) {
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace zero::checkpoint
