#include "checkpoint/directories.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include "checkpoint/file_writer.h"
#include "checkpoint/names.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

constexpr std::uint64_t kMaxLatestBytes = 256;

}  // namespace

void ensure_root(FileSystem& files, const std::string& root) {
  const FileKind kind = files.status(root).kind;
  ZERO_REQUIRE(kind != FileKind::kRegular,
               "the root of checkpoints is a file, choose a directory: " + root);
  if (kind != FileKind::kMissing) return;
  try {
    files.make_directory(root);
  } catch (const FileError& error) {
    if (error.code() != EEXIST) throw;  // Another job was faster.
  }
  files.fsync_directory(parent_path(root));
}

void remove_checkpoint_directory(FileSystem& files, const std::string& path) {
  for (const std::string& name : files.list(path)) {
    if (is_checkpoint_file_name(name)) files.unlink(join_path(path, name));
  }
  files.remove_directory(path);
}

std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& root) {
  std::vector<std::string> failures;
  for (const std::string& name : files.list(root)) {
    if (!is_leftover_name(name)) continue;
    try {
      remove_checkpoint_directory(files, join_path(root, name));
    } catch (const IoError& error) {
      failures.push_back(std::string("a leftover of an earlier save stays, remove it by hand: ") +
                         error.what());
    }
  }
  return failures;
}

std::uint64_t bytes_in(FileSystem& files, const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const std::string& name : files.list(directory)) {
    const FileStatus status = files.status(join_path(directory, name));
    if (status.kind == FileKind::kRegular) bytes += status.size;
  }
  return bytes;
}

std::vector<Leftover> find_leftovers(FileSystem& files, const std::string& root) {
  std::vector<Leftover> leftovers;
  for (const std::string& name : files.list(root)) {
    const std::string path = join_path(root, name);
    if (!is_leftover_name(name) || files.status(path).kind != FileKind::kDirectory) continue;
    try {
      leftovers.push_back({name, bytes_in(files, path)});
    } catch (const FileError& error) {
      if (error.code() != ENOENT) throw;  // A removal was under way, and is over.
    }
  }
  return leftovers;
}

std::string read_latest(FileSystem& files, const std::string& root) {
  const std::string path = join_path(root, kLatestName);
  if (files.status(path).kind != FileKind::kRegular) return {};
  const std::unique_ptr<File> file = files.open(path);
  std::string text(std::min<std::uint64_t>(file->size(), kMaxLatestBytes), '\0');
  read_all(*file, std::as_writable_bytes(std::span(text)), 0, path);
  return text.substr(0, text.find('\n'));
}

void write_latest(FileSystem& files, const std::string& root, std::string_view name) {
  const std::string temporary = join_path(root, kLatestTemporaryName);
  if (files.status(temporary).kind != FileKind::kMissing) files.unlink(temporary);
  write_text_file(files, temporary, std::string(name) + "\n");
  files.rename_over(temporary, join_path(root, kLatestName));
  files.fsync_directory(root);
}

}  // namespace zero::checkpoint
