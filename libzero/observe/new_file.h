#pragma once

#include <string>
#include <string_view>

namespace zero::observe {

/// A file that is there whole or not at all: it is written under another name beside its place.
/// Not thread-safe.
class NewFile {
 public:
  /// Throws IoError naming the file.
  explicit NewFile(const std::string& path);
  /// Without a commit() nothing is left.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws IoError.
  void write(std::string_view text);

  enum class Existing { kReplace, kRefuse };
  /// Gives the file its name. Throws ContractError where the name is taken and must not be, and
  /// IoError.
  void commit(Existing existing);

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
};

}  // namespace zero::observe
