#include "checkpoint/tools/new_files.h"

#include <cerrno>
#include <set>

#include "checkpoint/names.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

[[noreturn]] void refuse_taken(const std::string& path) {
  throw ContractError("nothing is overwritten, remove the file or choose another name: " + path);
}

}  // namespace

NewFile::NewFile(FileSystem& files, const std::string& path) : file_(files.create(path)) {
  buffer_.reserve(kBuffer);
}

void NewFile::append(std::span<const std::byte> data) {
  if (buffer_.size() + data.size() > kBuffer) flush();
  if (data.size() >= kBuffer) {
    write_all(*file_, data, written_);
    written_ += data.size();
  } else {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }
}

void NewFile::flush() {
  write_all(*file_, buffer_, written_);
  written_ += buffer_.size();
  buffer_.clear();
}

void NewFile::finish() {
  flush();
  file_->fsync();
  file_->close();
}

NewFiles::~NewFiles() {
  if (!committed_) remove_all();
}

NewFile& NewFiles::add(const std::string& path) {
  finish();
  // Noted first: an error of create() may come after the file was made.
  entries_.push_back({path, join_path(parent_path(path), export_temporary_name(random_attempt()))});
  open_ = std::make_unique<NewFile>(files_, entries_.back().temporary);
  return *open_;
}

void NewFiles::finish() {
  if (open_) open_->finish();
  open_.reset();
}

void NewFiles::commit() {
  finish();
  std::set<std::string> folders;
  for (Entry& entry : entries_) {
    // An index comes last: its parts' names are on the disk before it has its own.
    if (&entry == &entries_.back()) {
      for (const std::string& folder : folders) files_.fsync_directory(folder);
    }
    try {
      files_.rename_new(entry.temporary, entry.path);
    } catch (const FileError& error) {
      if (error.code() == EEXIST) refuse_taken(entry.path);
      throw;
    }
    entry.named = true;
    folders.insert(parent_path(entry.path));
  }
  for (const std::string& folder : folders) files_.fsync_directory(folder);
  committed_ = true;
}

void NewFiles::remove_all() noexcept {
  open_.reset();
  // Backwards: an index, which comes last, goes before the files that it names.
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    try {
      files_.unlink(entry->named ? entry->path : entry->temporary);
    } catch (...) {  // Whoever reports has a better error; there is nothing else to do about this.
    }
  }
}

void require_absent(FileSystem& files, const std::string& path) {
  const FileKind kind = files.status(path).kind;
  ZERO_REQUIRE(kind != FileKind::kDirectory,
               "this is a folder, name a new file, in it or elsewhere: " + path);
  if (kind != FileKind::kMissing) refuse_taken(path);
}

void require_room_for(FileSystem& files, const std::string& path, std::uint64_t bytes) {
  const std::string folder = parent_path(path);
  if (files.free_bytes(folder) < bytes) {
    throw FileError("create (" + std::to_string(bytes) + " bytes)", path, ENOSPC);
  }
}

}  // namespace zero::checkpoint
