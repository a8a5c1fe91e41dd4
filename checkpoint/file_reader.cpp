#include "checkpoint/file_reader.h"

#include <cerrno>
#include <cstring>

#include "checkpoint/names.h"

namespace zero::checkpoint {

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

std::vector<std::byte> read_dataset(File& file, const std::string& name,
                                    const DatasetRecord& record) {
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
