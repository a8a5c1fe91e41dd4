#include <algorithm>
#include <set>

#include "checkpoint/hdf5_skeleton.h"
#include "checkpoint/tools/export_formats.h"
#include "checkpoint/tools/new_files.h"

namespace zero::checkpoint {
namespace {

/// Names with slashes become groups, as far as HDF5 has a place of this name.
void require_names(const ExportContent& content) {
  std::set<std::string> names, groups;
  const auto add = [&](const std::string& name) {
    const std::string path = "/" + name + "/";
    ZERO_REQUIRE(path.find("//") == std::string::npos && path.find("/./") == std::string::npos,
                 "HDF5 has no place for a parameter of this name, export as safetensors: " + name);
    names.insert(name);
    for (std::size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      groups.insert(name.substr(0, slash));
    }
  };
  for (const ExportTensor& tensor : content.tensors) add(tensor.name);
  for (const auto& [alias, owner] : content.aliases) add(alias);
  for (const std::string& group : groups) {
    ZERO_REQUIRE(!names.contains(group),
                 "HDF5 cannot have a parameter inside another, export as safetensors: " + group +
                     " and " + group + "/...");
  }
}

hdf5::FileSpec spec_of(const Reader& reader, const ExportContent& content) {
  hdf5::FileSpec spec;
  spec.indexed_links = true;
  spec.attributes = {{"format", std::string("libzero-export")},
                     {"run_id", reader.info().run_id},
                     {"step", reader.info().step}};
  if (!content.weights.empty()) spec.attributes.push_back({"weights", content.weights});
  for (const ExportTensor& tensor : content.tensors) {
    spec.datasets.push_back({"/" + tensor.name, ElementType::of(tensor.dtype), tensor.shape});
  }
  for (const auto& [alias, owner] : content.aliases) {
    spec.links.push_back({"/" + alias, "/" + owner});
  }
  return spec;
}

void append_structure(NewFile& file, const hdf5::Skeleton& skeleton, std::uint64_t end) {
  static constexpr std::byte kZeros[4096] = {};
  while (file.size() < end) {
    const std::uint64_t in_page = file.size() % sizeof kZeros;
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(sizeof kZeros - in_page, end - file.size()));
    const auto page = skeleton.metadata.find(file.size() - in_page);
    file.append(page == skeleton.metadata.end()
                    ? std::span(kZeros, count)
                    : std::span<const std::byte>(page->second).subspan(in_page, count));
  }
}

}  // namespace

void export_hdf5(const Reader& reader, FileSystem& files, const std::string& path,
                 const ExportOptions& options, const ExportContent& content, ExportResult& result) {
  require_names(content);
  const hdf5::Skeleton skeleton = hdf5::make_skeleton(spec_of(reader, content));
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    if (content.tensors[i].numel > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return skeleton.offsets[a] < skeleton.offsets[b];
  });
  require_room_for(files, path, skeleton.size);
  NewFiles made(files);
  NewFile& file = made.add(path);
  ExportStream stream(reader, content.bytes, options.progress);
  for (const std::size_t i : order) {
    append_structure(file, skeleton, skeleton.offsets[i]);
    stream.read(content.tensors[i], [&](std::span<const std::byte> bytes) { file.append(bytes); });
  }
  append_structure(file, skeleton, skeleton.size);
  result.files = {path};
  result.bytes = file.size();
  made.commit();
}

}  // namespace zero::checkpoint
