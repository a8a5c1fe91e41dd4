#include "libzero/train/cifar_files.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kPixels = 3 * 32 * 32;

std::int64_t labels_of(Cifar kind) {
  return kind == Cifar::k10 ? 1 : 2;
}

std::int64_t classes_of(Cifar kind) {
  return kind == Cifar::k10 ? 10 : 100;
}

/// Throws FormatError.
std::int64_t records_of(const DataFile& file, std::int64_t record_bytes) {
  const std::int64_t rest = file.size() % record_bytes;
  if (rest != 0) {
    throw FormatError("CifarFiles: " +
                      file.at(file.size() - rest, "the file ends within this record of " +
                                                      std::to_string(record_bytes) +
                                                      " bytes; copy it again"));
  }
  if (file.size() == 0) throw FormatError("CifarFiles: " + file.at(0, "the file is empty"));
  return file.size() / record_bytes;
}

}  // namespace

CifarFiles::CifarFiles(const std::vector<std::string>& paths, Cifar kind) : kind_(kind) {
  ZERO_REQUIRE(!paths.empty(), "CifarFiles: name at least one file, data_batch_1.bin say");
  for (const std::string& path : paths) {
    files_.push_back({DataFile(path), count_});
    count_ += records_of(files_.back().file, labels_of(kind) + kPixels);
  }
}

LabelledImages CifarFiles::read(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) {
    ZERO_REQUIRE(index >= 0 && index < count_, "CifarFiles: an index must lie in [0, " +
                                                   std::to_string(count_) +
                                                   "): " + std::to_string(index));
  }
  const auto n = static_cast<std::int64_t>(indices.size());
  LabelledImages result{at::empty({n, 3, 32, 32}, at::kByte), at::empty({n}, at::kLong)};
  auto* pixels = result.images.mutable_data_ptr<std::uint8_t>();
  auto* labels = result.labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    *labels++ = read_record(index, pixels);
    pixels += kPixels;
  }
  return result;
}

std::int64_t CifarFiles::read_record(std::int64_t index, std::uint8_t* pixels) const {
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), index,
                       [](std::int64_t value, const File& file) { return value < file.first; });
  const File& file = *std::prev(after);
  const std::int64_t begin = (index - file.first) * (labels_of(kind_) + kPixels);
  std::array<std::byte, 2> labels{};
  const auto used = std::span(labels).first(static_cast<std::size_t>(labels_of(kind_)));
  file.file.read(begin, used);
  file.file.read(begin + labels_of(kind_), std::as_writable_bytes(std::span(pixels, kPixels)));
  const auto label = std::to_integer<std::int64_t>(used.back());
  if (label >= classes_of(kind_)) {
    throw FormatError("CifarFiles: " +
                      file.file.at(begin + labels_of(kind_) - 1,
                                   "label " + std::to_string(label) + " is none of the " +
                                       std::to_string(classes_of(kind_)) +
                                       "; is it the other CIFAR?"));
  }
  return label;
}

}  // namespace zero
