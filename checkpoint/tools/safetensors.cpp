#include "checkpoint/tools/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checkpoint/tools/safetensors_header.h"

namespace zero::checkpoint {
namespace {

constexpr std::string_view kIndexEnding = ".index.json";
constexpr std::string_view kAlias = "libzero.alias.";

[[noreturn]] void refuse(const std::string& what, const std::string& path) {
  throw FormatError("a safetensors file is damaged or foreign, get it again: " + what + ": " +
                    path);
}

std::uint64_t read_length(File& file, std::uint64_t file_bytes, const std::string& path) {
  std::uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little, "lengths in files are little-endian");
  if (file_bytes < sizeof length) refuse("it is too short for a header", path);
  read_all(file, std::as_writable_bytes(std::span(&length, 1)), 0, path);
  if (length > kMaxSafetensorsHeader || length > file_bytes - sizeof length) {
    refuse("its header is longer than the file or than 100 MB", path);
  }
  return length;
}

std::string read_text(File& file, std::uint64_t offset, std::uint64_t size,
                      const std::string& path) {
  std::string text(size, '\0');
  read_all(file, std::as_writable_bytes(std::span(text)), offset, path);
  return text;
}

StringMap read_index(FileSystem& files, const std::string& path) {
  const std::unique_ptr<File> file = files.open(path, Links::kFollow);
  const std::uint64_t size = file->size();
  if (size > kMaxSafetensorsHeader) refuse("an index is larger than 100 MB", path);
  return parse_safetensors_index(read_text(*file, 0, size, path), path);
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& files, const std::string& path)
    : path_(path), file_(files.open(path, Links::kFollow)) {
  const std::uint64_t size = file_->size();
  const std::uint64_t length = read_length(*file_, size, path_);
  data_begin_ = sizeof length + length;
  SafetensorsHeader header = parse_safetensors_header(
      read_text(*file_, sizeof length, length, path_), size - data_begin_, path_);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const SafetensorsEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found == entries_.end() || found->name != name ? nullptr : &*found;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t offset,
                           std::span<std::byte> dst) const {
  const std::uint64_t size = entry.end - entry.begin;
  ZERO_REQUIRE(offset <= size && dst.size() <= size - offset,
               "a read passes the end of its tensor: " + shown(entry.name) + " in " + path_);
  read_all(*file_, dst, data_begin_ + entry.begin + offset, path_);
}

SafetensorsWeights::SafetensorsWeights(FileSystem& files, const std::string& path) {
  if (!path.ends_with(kIndexEnding)) {
    parts_.push_back(std::make_unique<SafetensorsFile>(files, path));
    for (const SafetensorsEntry& entry : parts_[0]->entries()) part_of_[entry.name] = 0;
  } else {
    std::map<std::string, std::size_t> opened;
    for (const auto& [name, file] : read_index(files, path)) {
      const auto [at, is_new] = opened.emplace(file, parts_.size());
      if (is_new) {
        parts_.push_back(
            std::make_unique<SafetensorsFile>(files, join_path(parent_path(path), file)));
      }
      if (parts_[at->second]->find(name) == nullptr) {
        refuse("the index names a tensor that its part does not hold: " + shown(name), path);
      }
      part_of_[name] = at->second;
    }
  }
  for (const auto& [alias, owner] : aliases()) {
    if (part_of_.contains(alias) || !part_of_.contains(owner)) {
      refuse("an alias is a tensor itself, or of one that is not there: " + shown(alias), path);
    }
  }
}

SafetensorsWeights::Found SafetensorsWeights::find(std::string_view name) const {
  const auto found = part_of_.find(name);
  if (found == part_of_.end()) return {};
  const SafetensorsFile& file = *parts_[found->second];
  return {&file, file.find(name)};
}

std::vector<std::string> SafetensorsWeights::names() const {
  std::vector<std::string> result;
  for (const auto& [name, part] : part_of_) result.push_back(name);
  return result;
}

std::map<std::string, std::string> SafetensorsWeights::aliases() const {
  std::map<std::string, std::string> result;
  for (const auto& part : parts_) {
    for (const auto& [key, owner] : part->metadata()) {
      if (!key.starts_with(kAlias)) continue;
      const std::string alias = key.substr(kAlias.size());
      if (result.emplace(alias, owner).first->second != owner) {
        throw FormatError("parts of safetensors disagree about an alias, get them again: " +
                          shown(alias));
      }
    }
  }
  return result;
}

}  // namespace zero::checkpoint
