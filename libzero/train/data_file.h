#pragma once

/// Reading parts of a file that is only read.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zero {

/// An open file of a known size. Thread-safe.
class DataFile {
 public:
  /// Throws IoError, with errno's text, if it cannot be opened, FormatError if it is no file.
  explicit DataFile(const std::string& path);
  ~DataFile();
  /// The other one may then only be destroyed.
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&&) = delete;

  /// Bytes, when it was opened.
  std::int64_t size() const noexcept { return size_; }

  /// Bytes [offset, offset + bytes.size()). Throws IoError if the disk refuses, FormatError if the
  /// file ends before, both with the offset.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

  /// "FILE: byte OFFSET: WHAT", for errors.
  std::string at(std::int64_t offset, const std::string& what) const;

 private:
  std::string path_;
  int descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace zero
