#pragma once

/// New files that appear whole or not at all.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

/// Written from front to back.
class NewFile {
 public:
  NewFile(FileSystem& files, const std::string& path);
  void append(std::span<const std::byte> data);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  std::uint64_t size() const noexcept { return written_ + buffer_.size(); }
  /// Its bytes are on the disk when it returns. Once.
  void finish();

 private:
  void flush();

  std::unique_ptr<File> file_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

/// They have temporary names in the same folder (".zero-export-" and 16 hexadecimal digits) until
/// commit(); what was not committed is removed by the destructor, which never throws.
class NewFiles {
 public:
  explicit NewFiles(FileSystem& files) : files_(files) {}
  ~NewFiles();
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  /// A file that will be `path`; valid until the next add(), which finishes it. Throws IoError.
  NewFile& add(const std::string& path);

  /// Gives the files their names, in the order of add(). Throws ContractError if a name has been
  /// taken meanwhile, IoError; then none of them exists.
  void commit();

 private:
  struct Entry {
    std::string path;
    std::string temporary;
    bool named = false;
  };

  void finish();
  void remove_all() noexcept;

  FileSystem& files_;
  std::unique_ptr<NewFile> open_;
  std::vector<Entry> entries_;
  bool committed_ = false;
};

/// Throws ContractError if something has this name.
void require_absent(FileSystem& files, const std::string& path);

/// Throws FileError (ENOSPC) if the file system that will hold `path` has not the room.
void require_room_for(FileSystem& files, const std::string& path, std::uint64_t bytes);

}  // namespace zero::checkpoint
