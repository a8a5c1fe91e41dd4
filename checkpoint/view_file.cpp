#include "checkpoint/view_file.h"

#include <algorithm>
#include <set>

#include "checkpoint/common_file.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr std::string_view kFolder = "/parameters/";

using Segments = std::span<const ShardSegment>;

/// Calls visit(state, segments of one parameter), by state, then parameter.
template <class Visit>
void for_each_state(const ShardIndex& index, Visit visit) {
  for (const auto& [state, segments] : index.segments) {
    for (auto first = segments.begin(); first != segments.end();) {
      const auto last = std::find_if(first, segments.end(), [&](const ShardSegment& other) {
        return other.extent.parameter != first->extent.parameter;
      });
      visit(state, Segments(first, last));
      first = last;
    }
  }
}

bool is_small_enough(const ShardIndex& index, const std::vector<ParameterSpec>& parameters) {
  std::size_t segments = 0;
  for (const auto& [state, all] : index.segments) segments += all.size();
  if (segments > kMaxViewMappings) return false;
  std::size_t datasets = 0, mappings = 0;
  for_each_state(index, [&](const std::string&, Segments parts) {
    ++datasets;
    for (const auto& [extent, offset, source] : parts) {
      const ParameterSpec& spec = parameters[static_cast<std::size_t>(extent.parameter)];
      mappings += boxes_of(spec.shape, extent.begin, extent.end).size();
    }
  });
  return datasets <= kMaxViewDatasets && mappings <= kMaxViewMappings;
}

/// Which parameters have a place: "/parameters/NAME/STATE", slashes of names as groups.
std::vector<bool> find_places(const ShardIndex& index,
                              const std::vector<ParameterSpec>& parameters) {
  std::set<std::string> taken;  // By datasets: no group may have such a name.
  for_each_state(index, [&](const std::string& state, Segments segments) {
    const auto row = static_cast<std::size_t>(segments[0].extent.parameter);
    taken.insert(parameters[row].name + "/" + state);
  });
  std::vector<bool> has_place;
  for (const ParameterSpec& spec : parameters) {
    const std::string path = "/" + spec.name + "/";
    bool fits = path.find("//") == std::string::npos && path.find("/./") == std::string::npos;
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      fits &= !taken.contains(path.substr(1, slash - 1));
    }
    has_place.push_back(fits);
  }
  return has_place;
}

hdf5::VirtualSpec virtual_of(const Manifest& manifest, const ShardIndex& index,
                             const ParameterSpec& parameter, const std::string& state,
                             Segments segments) {
  const DType dtype = index.sources[segments[0].source].dtype;
  hdf5::VirtualSpec spec{std::string(kFolder) + parameter.name + "/" + state,
                         ElementType::of(dtype),
                         parameter.shape,
                         {}};
  for (const ShardSegment& segment : segments) {
    const ShardSource& source = index.sources[segment.source];
    std::int64_t offset = segment.offset;
    for (Box& box : boxes_of(parameter.shape, segment.extent.begin, segment.extent.end)) {
      const std::int64_t count = checked_product(box.extent);
      spec.mappings.push_back({manifest.files[source.file].name, source.data->name,
                               source.data->shape[0], offset, std::move(box.start),
                               std::move(box.extent)});
      offset += count;
    }
  }
  return spec;
}

std::vector<hdf5::AttributeSpec> attributes_of(const Manifest& manifest) {
  auto attributes = root_attributes(manifest.step, manifest.run_id, manifest.world_size, -1);
  attributes[0].value = std::string("libzero-view");
  return attributes;
}

void add_aliases(View& view, const ShardIndex& index, const std::vector<ParameterSpec>& parameters,
                 const std::vector<bool>& has_place) {
  std::set<std::int32_t> shown;
  for_each_state(index, [&](const std::string&, Segments segments) {
    shown.insert(segments[0].extent.parameter);
  });
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const ParameterSpec& spec = parameters[row];
    const bool is_alias = spec.alias_of != -1;
    if (!shown.contains(is_alias ? spec.alias_of : static_cast<std::int32_t>(row))) continue;
    const bool owner_fits = !is_alias || has_place[static_cast<std::size_t>(spec.alias_of)];
    if (!has_place[row] || !owner_fits) {
      view.left_out.push_back(spec.name);
    } else if (is_alias) {
      const ParameterSpec& owner = parameters[static_cast<std::size_t>(spec.alias_of)];
      view.content.links.push_back(
          {std::string(kFolder) + spec.name, std::string(kFolder) + owner.name});
    }
  }
}

void add_boxes(std::vector<Box>& boxes, Box prefix, const std::vector<std::int64_t>& shape,
               std::int64_t begin, std::int64_t end) {
  const std::size_t level = prefix.start.size();
  std::int64_t below = 1;
  for (std::size_t i = level + 1; i < shape.size(); ++i) below *= shape[i];
  const auto inside = [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    Box deeper = prefix;
    deeper.start.push_back(row);
    deeper.extent.push_back(1);
    add_boxes(boxes, std::move(deeper), shape, from, to);
  };
  std::int64_t first = begin / below;
  const std::int64_t last = end / below;
  if (first == last) return inside(first, begin % below, end % below);
  if (begin % below != 0) inside(first++, begin % below, below);
  if (first < last) {
    Box rows = prefix;
    rows.start.push_back(first);
    rows.extent.push_back(last - first);
    for (std::size_t i = level + 1; i < shape.size(); ++i) {
      rows.start.push_back(0);
      rows.extent.push_back(shape[i]);
    }
    boxes.push_back(std::move(rows));
  }
  if (end % below != 0) inside(last, 0, end % below);
}

}  // namespace

std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, std::int64_t begin,
                          std::int64_t end) {
  std::vector<Box> boxes;
  if (shape.empty()) return {Box{}};
  add_boxes(boxes, {}, shape, begin, end);
  return boxes;
}

std::optional<View> make_view(const Manifest& manifest, const ShardIndex& index,
                              const std::vector<ParameterSpec>& parameters) {
  if (!is_small_enough(index, parameters)) return std::nullopt;
  const std::vector<bool> has_place = find_places(index, parameters);
  View view;
  view.content.name = std::string(kViewName);
  view.content.attributes = attributes_of(manifest);
  view.content.indexed_links = true;
  for_each_state(index, [&](const std::string& state, Segments segments) {
    const auto row = static_cast<std::size_t>(segments[0].extent.parameter);
    if (!has_place[row]) return;
    view.content.virtuals.push_back(virtual_of(manifest, index, parameters[row], state, segments));
  });
  add_aliases(view, index, parameters, has_place);
  return view;
}

std::string problem_of_view(const FileRecord& record, const Manifest& manifest,
                            const ShardIndex& index, const std::vector<ParameterSpec>& parameters) {
  if (!record.datasets.empty()) return "the manifest lists datasets of it, which are virtual";
  const std::optional<View> view = make_view(manifest, index, parameters);
  if (!view) return "a checkpoint of so many parameters and extents has no view";
  if (hash_of_structure(view->content) == record.hash) return {};
  if (!record.hdf5_version.empty() && record.hdf5_version != hdf5::library_version()) return {};
  return "its virtual datasets are not those that the shards' tables give";
}

}  // namespace zero::checkpoint
