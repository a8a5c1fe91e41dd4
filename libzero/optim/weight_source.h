#pragma once

/// Named tensors of a file. The optimizer knows no file format: this is all that it sees of one.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace zero {

struct WeightEntry {
  std::string name;
  std::string dtype;  ///< In safetensors' words: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Sorted by name.
  virtual std::vector<WeightEntry> entries() const = 0;
  /// Other names of entries: alias -> entry.
  virtual std::map<std::string, std::string> aliases() const = 0;
  /// Bytes [offset, offset + dst.size()) of a tensor, row-major, little-endian. Throws IoError,
  /// FormatError.
  virtual void read(const std::string& name, std::uint64_t offset,
                    std::span<std::byte> dst) const = 0;
};

/// A .safetensors file or a *.safetensors.index.json. Throws FormatError, IoError, and Unavailable
/// in a build without checkpoints.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

}  // namespace zero
