#pragma once

/// The safetensors format: an 8-byte little-endian header length, a JSON header, then the data.
/// https://github.com/huggingface/safetensors (format description in its README)

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file_system.h"
#include "libzero/base/dtype.h"

namespace zero::checkpoint {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< As in the file: "F32", "BF16", "F16", "I64", "U8", "F64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< In the data section, bytes.
  std::uint64_t end = 0;
};

/// One file, or a symbolic link to one; everything in it is checked before anything is believed.
/// Any number of threads may read.
class SafetensorsFile {
 public:
  /// Throws FormatError for whatever the format forbids (a header beyond 100 MB or the file's end,
  /// repeated names, offsets that overlap, leave holes, pass the file or do not fit shape and
  /// dtype), IoError.
  SafetensorsFile(FileSystem& files, const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< Sorted by name.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Null if there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Bytes [offset, offset + dst.size()) of a tensor of this file. Throws ContractError beyond it,
  /// IoError, FormatError if the file has shrunk since.
  void read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<std::byte> dst) const;

 private:
  std::string path_;
  std::unique_ptr<File> file_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// `path` may be one .safetensors file, or a "*.safetensors.index.json" beside its parts
/// (weight_map: name -> file name without a path). Each may be a symbolic link, as downloads in a
/// cache are; parts lie beside the index's link. Tensors of parts that the index does not name are
/// not there. Any number of threads may call it.
class SafetensorsWeights {
 public:
  /// Throws FormatError (see SafetensorsFile; an index that is malformed, names paths, or tensors
  /// that their part does not hold; aliases of tensors that are not there), IoError.
  SafetensorsWeights(FileSystem& files, const std::string& path);

  struct Found {
    const SafetensorsFile* file = nullptr;  ///< Null: there is no tensor of this name.
    const SafetensorsEntry* entry = nullptr;
  };
  Found find(std::string_view name) const;
  std::vector<std::string> names() const;  ///< Sorted.
  /// Names that are written down as aliases of others ("libzero.alias.NAME" in the metadata).
  std::map<std::string, std::string> aliases() const;

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> parts_;
  std::map<std::string, std::size_t, std::less<>> part_of_;
};

}  // namespace zero::checkpoint
