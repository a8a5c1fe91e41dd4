#include <algorithm>
#include <cstdio>
#include <set>

#include "checkpoint/tools/export_formats.h"
#include "checkpoint/tools/new_files.h"
#include "checkpoint/tools/safetensors_header.h"

namespace zero::checkpoint {
namespace {

constexpr std::string_view kEnding = ".safetensors";

struct Part {
  std::string path;
  std::vector<const ExportTensor*> tensors;
  std::uint64_t bytes = 0;
};

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
    case DType::kInt64:
      return "I64";
    case DType::kUInt8:
      break;
  }
  return "U8";
}

/// Cut in the model's order. Inside a part wider elements come first, so that all are aligned
/// without holes, which the format forbids.
std::vector<Part> cut(const ExportContent& content, std::uint64_t max_shard) {
  std::vector<Part> parts(1);
  for (const ExportTensor& tensor : content.tensors) {
    const bool full =
        max_shard > 0 && tensor.bytes() > max_shard - std::min(max_shard, parts.back().bytes);
    if (full && parts.back().bytes > 0) parts.emplace_back();
    parts.back().tensors.push_back(&tensor);
    parts.back().bytes += tensor.bytes();
  }
  for (Part& part : parts) {
    std::stable_sort(part.tensors.begin(), part.tensors.end(),
                     [](const ExportTensor* a, const ExportTensor* b) {
                       return size_of(a->dtype) > size_of(b->dtype);
                     });
  }
  return parts;
}

bool is_stem_and_ending(const std::string& path) {
  const std::string name = base_name(path);
  return name.ends_with(kEnding) && name.size() > kEnding.size();
}

/// "model.safetensors" -> "model-00002-of-00003.safetensors"
std::string part_path(const std::string& path, std::size_t index, std::size_t count) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", index + 1, count);
  return path.substr(0, path.size() - kEnding.size()) + numbers + std::string(kEnding);
}

std::vector<SafetensorsEntry> entries_of(const Part& part) {
  std::vector<SafetensorsEntry> entries;
  std::uint64_t at = 0;
  for (const ExportTensor* tensor : part.tensors) {
    entries.push_back({tensor->name, std::string(dtype_name(tensor->dtype)), tensor->shape, at,
                       at + tensor->bytes()});
    at += tensor->bytes();
  }
  return entries;
}

StringMap metadata_of(const Part& part, const Reader& reader, const ExportContent& content) {
  StringMap metadata = {{"format", "pt"},
                        {"libzero.run_id", reader.info().run_id},
                        {"libzero.step", std::to_string(reader.info().step)}};
  if (!content.weights.empty()) metadata["libzero.weights"] = content.weights;
  std::set<std::string_view> here;
  for (const ExportTensor* tensor : part.tensors) here.insert(tensor->name);
  for (const auto& [alias, owner] : content.aliases) {
    if (here.contains(owner)) metadata["libzero.alias." + alias] = owner;
  }
  return metadata;
}

void require_names(const ExportContent& content) {
  for (const ExportTensor& tensor : content.tensors) {
    ZERO_REQUIRE(tensor.name != "__metadata__",
                 "safetensors keep this name for themselves, export as HDF5: " + tensor.name);
  }
}

void write_part(NewFile& file, const Part& part, const std::string& header, ExportStream& stream) {
  const std::uint64_t length = header.size();
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(header);
  for (const ExportTensor* tensor : part.tensors) {
    stream.read(*tensor, [&](std::span<const std::byte> bytes) { file.append(bytes); });
  }
}

std::string index_of(const std::vector<Part>& parts, std::uint64_t bytes) {
  StringMap weight_map;
  for (const Part& part : parts) {
    const std::string name = base_name(part.path);
    for (const ExportTensor* tensor : part.tensors) weight_map[tensor->name] = name;
  }
  return safetensors_index_text(weight_map, bytes);
}

}  // namespace

void export_safetensors(const Reader& reader, FileSystem& files, const std::string& path,
                        const ExportOptions& options, const ExportContent& content,
                        ExportResult& result) {
  require_names(content);
  const std::string index_path = path + ".index.json";
  std::vector<Part> parts = cut(content, options.max_shard);
  ZERO_REQUIRE(parts.size() == 1 || is_stem_and_ending(path),
               "several safetensors files need a name that ends in .safetensors; change it, or "
               "allow larger files: " +
                   path);
  std::vector<std::string> headers;
  std::uint64_t total = content.bytes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].path = parts.size() == 1 ? path : part_path(path, i, parts.size());
    require_absent(files, parts[i].path);
    headers.push_back(
        safetensors_header_text(entries_of(parts[i]), metadata_of(parts[i], reader, content)));
    total += sizeof(std::uint64_t) + headers.back().size();
  }
  require_absent(files, index_path);  // One beside a single file would make readers look for parts.
  require_room_for(files, path, total);
  NewFiles made(files);
  ExportStream stream(reader, content.bytes, options.progress);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    NewFile& file = made.add(parts[i].path);
    write_part(file, parts[i], headers[i], stream);
    result.files.push_back(parts[i].path);
    result.bytes += file.size();
  }
  if (parts.size() > 1) {
    NewFile& file = made.add(index_path);
    file.append(index_of(parts, content.bytes));
    result.files.push_back(index_path);
    result.bytes += file.size();
  }
  made.commit();
}

}  // namespace zero::checkpoint
