#pragma once

/// The binary version of the CIFAR-10 and CIFAR-100 data sets.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libzero/train/data_file.h"

namespace zero {

enum class Cifar {
  k10,   ///< Records of 1 label byte (0 ... 9) and 3072 bytes of pixels.
  k100,  ///< Records of a coarse and a fine label byte (0 ... 99) and the pixels.
};

/// Images and labels; both on the CPU.
struct LabelledImages {
  at::Tensor images;  ///< uint8 [n, 3, 32, 32]: red, green, blue planes, row by row.
  at::Tensor labels;  ///< int64 [n]; of CIFAR-100 the fine ones.
};

/// The records of one or more files, one after the other. Thread-safe.
class CifarFiles {
 public:
  /// Throws ContractError for no path, IoError if a file cannot be read, FormatError, naming file
  /// and offset, if one is empty or ends within a record.
  explicit CifarFiles(const std::vector<std::string>& paths, Cifar kind = Cifar::k10);

  /// Images in all files.
  std::int64_t count() const noexcept { return count_; }

  /// Read from the disk. Throws ContractError for an index outside [0, count()), FormatError naming
  /// file and offset for a label that is none or a file that has become shorter, IoError.
  LabelledImages read(std::span<const std::int64_t> indices) const;

 private:
  struct File {
    DataFile file;
    std::int64_t first;  ///< Index of its first record.
  };

  std::int64_t read_record(std::int64_t index, std::uint8_t* pixels) const;

  Cifar kind_;
  std::vector<File> files_;
  std::int64_t count_ = 0;
};

}  // namespace zero
