#include "checkpoint/shard_file.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "checkpoint/common_file.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr std::string_view kStates = "/states/";
constexpr std::string_view kData = "data";
constexpr std::string_view kBlocks = "blocks";
constexpr std::string_view kExtents = "extents";
constexpr std::size_t kColumns = 4;

struct StatePath {
  std::string state;
  DType dtype;
  std::string folder;
  std::string_view leaf;
};

/// "/states/STATE/DTYPE/LEAF"; nothing for other names, which a later minor version may have added.
std::optional<StatePath> parse_path(std::string_view name) {
  if (!name.starts_with(kStates)) return std::nullopt;
  const std::string_view rest = name.substr(kStates.size());
  const std::size_t first = rest.find('/');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = rest.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto type = parse_element_type(rest.substr(first + 1, second - first - 1));
  if (!type || type->kind != ElementType::Kind::kTensor) return std::nullopt;
  if (!is_state_name(rest.substr(0, first))) return std::nullopt;
  return StatePath{std::string(rest.substr(0, first)), type->dtype,
                   std::string(name.substr(0, kStates.size() + second + 1)),
                   rest.substr(second + 1)};
}

[[noreturn]] void refuse(const std::string& what, const std::string& file,
                         std::string_view dataset) {
  throw FormatError("a shard breaks the format, use another checkpoint: " + what + ": " + file +
                    std::string(dataset));
}

/// Rows must be sorted and disjoint, lie inside their parameters, and fill data from 0 to its end.
std::vector<ShardSegment> checked_rows(const std::vector<std::int64_t>& table, std::int64_t numel,
                                       std::size_t source,
                                       const std::vector<ParameterSpec>& parameters,
                                       const std::string& where) {
  std::vector<ShardSegment> rows;
  std::int64_t offset = 0, last_end = 0, last_parameter = -1;
  for (std::size_t at = 0; at < table.size(); at += kColumns) {
    const std::int64_t parameter = table[at], begin = table[at + 1], end = table[at + 2];
    const std::string row = "row " + std::to_string(at / kColumns) + " of its extents ";
    if (parameter < 0 || parameter >= static_cast<std::int64_t>(parameters.size())) {
      refuse(row + "names no parameter", where, "");
    }
    const ParameterSpec& spec = parameters[static_cast<std::size_t>(parameter)];
    if (begin < 0 || end <= begin || end > spec.numel() || spec.alias_of != -1) {
      refuse(row + "passes its parameter, or is an alias's", where, "");
    }
    if (std::tie(parameter, begin) < std::tie(last_parameter, last_end)) {
      refuse(row + "is not sorted, or overlaps", where, "");
    }
    if (table[at + 3] != offset || end - begin > numel - offset) {
      refuse(row + "does not follow in the data", where, "");
    }
    rows.push_back({{static_cast<std::int32_t>(parameter), begin, end}, offset, source});
    offset += end - begin;
    last_end = end;
    last_parameter = parameter;
  }
  if (offset != numel) refuse("its extents do not fill its data", where, "");
  return rows;
}

/// The hashes of the blocks, as the format wants them beside data of that size; null where it wants
/// none.
const DatasetRecord* find_blocks(const Manifest& manifest, const FileRecord& file,
                                 const DatasetRecord& data) {
  const DatasetRecord* blocks = file.find(blocks_name(data.name));
  const bool wanted = data.bytes > manifest.block_bytes;
  if (wanted != (blocks != nullptr)) refuse("blocks are missing or too many", file.name, data.name);
  if (!wanted) return nullptr;
  const auto count = static_cast<std::int64_t>((data.bytes - 1) / manifest.block_bytes + 1);
  if (blocks->type != ElementType::of(DType::kUInt8) ||
      blocks->shape != std::vector<std::int64_t>{count, 16} || blocks->hash != data.hash) {
    refuse("blocks do not agree with the data", file.name, blocks->name);
  }
  return blocks;
}

/// These belong to every trainable parameter, if to one: a moment that got lost must not go
/// unnoticed.
std::string problem_of_known_states(const std::vector<HeldExtent>& held,
                                    const std::vector<ParameterSpec>& parameters) {
  for (const std::string_view state :
       {"ema", "exp_avg", "exp_avg_sq", "master", "momentum_buffer"}) {
    std::vector<bool> has(parameters.size());
    bool occurs = false;
    for (const HeldExtent& part : held) {
      if (part.state != state) continue;
      has[static_cast<std::size_t>(part.extent.parameter)] = occurs = true;
    }
    for (std::size_t row = 0; occurs && row < parameters.size(); ++row) {
      const ParameterSpec& spec = parameters[row];
      if (spec.trainable && spec.alias_of == -1 && spec.numel() > 0 && !has[row]) {
        return "nobody holds state '" + std::string(state) + "' of " + spec.name;
      }
    }
  }
  return {};
}

/// Cuts what the writer asks for at the bounds of extents. REQUIRES that `view` outlives it.
std::function<void(std::span<std::byte>)> make_fill(const StateView& view) {
  if (!view.fill) return nullptr;
  return [&view, extent = view.extents.begin(),
          done = std::int64_t{0}](std::span<std::byte> dst) mutable {
    const std::int64_t width = size_of(view.dtype);
    while (!dst.empty()) {
      const std::int64_t begin = extent->begin + done;
      const auto room = static_cast<std::int64_t>(dst.size()) / width;
      const std::int64_t count = std::min(extent->end - begin, room);
      const auto bytes = static_cast<std::size_t>(count * width);
      view.fill({extent->parameter, begin, begin + count}, dst.first(bytes));
      dst = dst.subspan(bytes);
      done += count;
      if (begin + count < extent->end) continue;
      ++extent;
      done = 0;
    }
  };
}

std::string describe_part(const HeldExtent& part, const std::vector<ParameterSpec>& parameters) {
  return "state '" + part.state + "' of " + describe(part.extent, parameters);
}

}  // namespace

ShardContent encode_shard(const RankState& state, const CommonState& common, int rank,
                          int world_size) {
  std::vector<const StateView*> views;
  for (const StateView& view : state.states) views.push_back(&view);
  std::sort(views.begin(), views.end(), [](const StateView* a, const StateView* b) {
    return std::tie(a->name, a->dtype) < std::tie(b->name, b->dtype);
  });
  ShardContent result;
  result.content.name = shard_name(rank, world_size);
  result.content.rank = rank;
  result.content.attributes = root_attributes(common.step, common.run_id, world_size, rank);
  for (const StateView* view : views) {
    const ElementType type = ElementType::of(view->dtype);
    const std::string folder = std::string(kStates) + view->name + "/" + to_text(type) + "/";
    std::vector<std::int64_t>& table = result.tables.emplace_back();
    std::int64_t offset = 0;
    for (const Extent& extent : view->extents) {
      table.insert(table.end(), {extent.parameter, extent.begin, extent.end, offset});
      offset += extent.end - extent.begin;
    }
    result.content.datasets.push_back(
        {{folder + std::string(kExtents),
          ElementType::of(DType::kInt64),
          {static_cast<std::int64_t>(view->extents.size()), kColumns}},
         {std::as_bytes(std::span(table))},
         false});
    result.content.datasets.push_back(
        {{folder + std::string(kData), type, {offset}}, view->pieces, true, make_fill(*view)});
  }
  return result;
}

void add_shard(ShardIndex& index, File& file, const std::string& name, const Manifest& manifest,
               std::size_t file_index, const std::vector<ParameterSpec>& parameters) {
  const FileRecord& record = manifest.files[file_index];
  for (const DatasetRecord& data : record.datasets) {
    const auto path = parse_path(data.name);
    if (!path) continue;
    if (path->leaf != kData) {
      const bool known = path->leaf == kExtents || path->leaf == kBlocks;
      if (known && record.find(path->folder + std::string(kData)) == nullptr) {
        refuse("it has no data beside it", name, data.name);
      }
      continue;
    }
    if (data.type != ElementType::of(path->dtype) || data.shape.size() != 1) {
      refuse("another type or shape than its name says", name, data.name);
    }
    const DatasetRecord* extents = record.find(path->folder + std::string(kExtents));
    if (extents == nullptr || extents->type != ElementType::of(DType::kInt64) ||
        extents->shape.size() != 2 || extents->shape[1] != kColumns) {
      refuse("its extents are missing or malformed", name, data.name);
    }
    const std::size_t source = index.sources.size();
    index.sources.push_back(
        {file_index, &data, find_blocks(manifest, record, data), path->state, path->dtype});
    const auto rows = checked_rows(as_int64(read_dataset(file, name, *extents)), data.shape[0],
                                   source, parameters, name + data.name);
    auto& segments = index.segments[path->state];
    segments.insert(segments.end(), rows.begin(), rows.end());
  }
}

void sort_segments(ShardIndex& index) {
  for (auto& [state, segments] : index.segments) {
    std::sort(segments.begin(), segments.end(), [](const ShardSegment& a, const ShardSegment& b) {
      return std::tie(a.extent.parameter, a.extent.begin) <
             std::tie(b.extent.parameter, b.extent.begin);
    });
  }
}

std::string problem_of_tiling(const ShardIndex& index,
                              const std::vector<ParameterSpec>& parameters) {
  std::vector<HeldExtent> held;
  for (const auto& [state, segments] : index.segments) {
    for (const ShardSegment& segment : segments) {
      held.push_back({state, index.sources[segment.source].dtype, segment.extent});
    }
  }
  return problem_of_tiling(std::move(held), parameters);
}

std::string problem_of_tiling(std::vector<HeldExtent> held,
                              const std::vector<ParameterSpec>& parameters) {
  std::sort(held.begin(), held.end(), [](const HeldExtent& a, const HeldExtent& b) {
    return std::tie(a.state, a.extent.parameter, a.extent.begin) <
           std::tie(b.state, b.extent.parameter, b.extent.begin);
  });
  std::vector<bool> has_state(parameters.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    const HeldExtent& part = held[i];
    const auto row = static_cast<std::size_t>(part.extent.parameter);
    const auto same = [&](const HeldExtent& other) {
      return other.state == part.state && other.extent.parameter == part.extent.parameter;
    };
    const bool first = i == 0 || !same(held[i - 1]);
    const bool last = i + 1 == held.size() || !same(held[i + 1]);
    const std::int64_t expected = first ? 0 : held[i - 1].extent.end;
    const std::string text = describe_part(part, parameters);
    if (part.extent.begin > expected) return "nobody holds what comes before " + text;
    if (part.extent.begin < expected) return "two ranks hold the beginning of " + text;
    if (!first && part.dtype != held[i - 1].dtype) return "two dtypes meet at " + text;
    if (last && part.extent.end != parameters[row].numel()) {
      return "nobody holds what comes after " + text;
    }
    has_state[row] = true;
  }
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const ParameterSpec& spec = parameters[row];
    if (!has_state[row] && spec.alias_of == -1 && spec.numel() > 0) {
      return "nobody holds any state of " + spec.name;
    }
  }
  return problem_of_known_states(held, parameters);
}

}  // namespace zero::checkpoint
