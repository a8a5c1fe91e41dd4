#include <algorithm>

#include "cli/inspect_report.h"
#include "cli/numbers.h"
#include "cli/printable.h"
#include "cli/table.h"
#include "libzero/base/number_text.h"
#include "libzero/base/shape_text.h"

namespace zero::cli {
namespace {

using checkpoint::Inspection;
using checkpoint::Piece;

std::string kind_text(const Inspection& what, const ParameterSpec& parameter) {
  if (parameter.alias_of == -1) return kind_of(parameter);
  return "alias of " + what.common.parameters[static_cast<std::size_t>(parameter.alias_of)].name;
}

std::vector<std::string> sizes_of(const checkpoint::Blobs& blobs) {
  std::vector<std::string> items;
  for (const auto& [key, blob] : blobs) items.push_back(key + " " + bytes_text(blob.size()));
  return items;
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string heading(const std::string& directory, const Inspection& what, int width) {
  const checkpoint::Manifest& manifest = what.manifest;
  const auto line = [&](const std::string& title, const std::string& text) {
    return titled_list(title, {text.empty() ? "not given" : text}, width);
  };
  return printable(directory) + "\n\n" + line("run", manifest.run_id) +
         line("step", std::to_string(manifest.step)) +
         line("saved by", count_text(static_cast<std::uint64_t>(manifest.world_size), "rank") +
                              " at stage " + std::to_string(manifest.stage)) +
         line("created", manifest.created) + line("writer", manifest.writer) +
         line("attempt", manifest.attempt) + line("blocks", bytes_text(manifest.block_bytes));
}

std::string parameters_table(const Inspection& what, int width) {
  Table table({{"parameter", Table::Align::kLeft, true},
               {"shape", Table::Align::kLeft, true},
               {"dtype"},
               {"group", Table::Align::kRight},
               {"kind", Table::Align::kLeft, true},
               {"elements", Table::Align::kRight},
               {"bytes", Table::Align::kRight},
               {"states", Table::Align::kLeft, true}});
  for (std::size_t row = 0; row < what.common.parameters.size(); ++row) {
    const ParameterSpec& spec = what.common.parameters[row];
    std::uint64_t bytes = 0;
    std::vector<std::string> states;
    for (const auto& [state, sum] :
         sums_by_state(pieces_of(what, static_cast<std::int32_t>(row)))) {
      bytes += sum.bytes;
      states.push_back(state);
    }
    table.add({spec.name, shape_text(spec.shape), std::string(name_of(spec.dtype)),
               spec.group < 0 ? "-" : std::to_string(spec.group), kind_text(what, spec),
               std::to_string(spec.numel()), bytes_text(bytes), joined(states)});
  }
  return table.text(width);
}

std::string states_table(const Inspection& what, int width) {
  Table table({{"state", Table::Align::kLeft, true},
               {"elements", Table::Align::kRight},
               {"bytes", Table::Align::kRight}});
  for (const auto& [state, sum] : sums_by_state(what.pieces)) {
    table.add({state, std::to_string(sum.elements), bytes_text(sum.bytes)});
  }
  return table.text(width);
}

std::string size_text(std::int64_t bytes) {
  return bytes_text(static_cast<std::uint64_t>(bytes));
}

std::string ranks_table(const Inspection& what, int width) {
  const auto memory = memory_sums_of(what);
  const bool has_device = memory && memory->device > 0;
  std::vector<Table::Column> columns = {{"rank", Table::Align::kRight},
                                        {"file", Table::Align::kLeft, true},
                                        {"size", Table::Align::kRight},
                                        {"elements", Table::Align::kRight},
                                        {"extents", Table::Align::kRight}};
  if (memory) columns.push_back({"memory", Table::Align::kRight});
  if (has_device) columns.push_back({"on GPU", Table::Align::kRight});
  columns.push_back({"blobs", Table::Align::kLeft, true});
  Table table(columns);
  std::vector<std::int64_t> elements(what.rank_blobs.size()), extents(what.rank_blobs.size());
  for (const Piece& piece : what.pieces) {
    elements[static_cast<std::size_t>(piece.rank)] += piece.extent.end - piece.extent.begin;
    ++extents[static_cast<std::size_t>(piece.rank)];
  }
  for (std::size_t rank = 0; rank < what.rank_blobs.size(); ++rank) {
    const checkpoint::FileRecord& file = what.manifest.shard(static_cast<int>(rank));
    std::vector<std::string> row = {std::to_string(rank), file.name, bytes_text(file.size),
                                    std::to_string(elements[rank]), std::to_string(extents[rank])};
    const auto& held = what.memory[rank];
    if (memory) row.push_back(held ? size_text(held->host) : "-");
    if (has_device) row.push_back(held ? size_text(held->device) : "-");
    checkpoint::Blobs blobs = what.rank_blobs[rank];
    blobs.erase(std::string(checkpoint::kRankMemory));  // two columns already
    row.push_back(joined(sizes_of(blobs)));
    table.add(row);
  }
  return table.text(width);
}

std::string shared_lists(const Inspection& what, int width) {
  std::string text;
  for (std::size_t group = 0; group < what.common.groups.size(); ++group) {
    std::vector<std::string> items;
    for (const auto& [option, value] : what.common.groups[group]) {
      items.push_back(option + " " + number_text(value));
    }
    text += titled_list("group " + std::to_string(group), items, width);
  }
  const LossScalerState& scaler = what.common.scaler;
  text += titled_list("scaler",
                      {"scale " + number_text(scaler.scale),
                       "growth_tracker " + std::to_string(scaler.growth_tracker),
                       "hysteresis_left " + std::to_string(scaler.hysteresis_left),
                       "consecutive_skips " + std::to_string(scaler.consecutive_skips)},
                      width);
  std::vector<std::string> counters;
  for (const auto& [name, value] : what.common.counters) {
    counters.push_back(name + " " + std::to_string(value));
  }
  text += titled_list("counters", counters, width) +
          titled_list("blobs", sizes_of(what.common.blobs), width);
  for (const auto& [rank, blobs] : what.common.surplus_rank_blobs) {
    text += titled_list("once rank " + std::to_string(rank), sizes_of(blobs), width);
  }
  return text;
}

std::string totals(const Inspection& what, int width) {
  std::map<std::string, std::uint64_t> kinds;
  for (const ParameterSpec& parameter : what.common.parameters) ++kinds[kind_of(parameter)];
  std::uint64_t data = 0;
  for (const Piece& piece : what.pieces) data += piece.bytes();
  const std::uint64_t files = what.manifest.files.size();
  return titled_list(
             "parameters",
             {std::to_string(kinds["trainable"]) + " trainable",
              std::to_string(kinds["frozen"]) + " frozen", count_text(kinds["buffer"], "buffer"),
              std::to_string(kinds["alias"]) + (kinds["alias"] == 1 ? " alias" : " aliases")},
             width) +
         titled_list("total",
                     {bytes_text(what.manifest.bytes()) + " in " + count_text(files, "file"),
                      bytes_text(data) + " of states"},
                     width);
}

std::string memory_lines(const Inspection& what, int width) {
  const auto memory = memory_sums_of(what);
  if (!memory) return "";
  const auto line = [&](const char* title, std::uint64_t largest, std::uint64_t total) {
    return titled_list(
        title, {bytes_text(largest) + " on the largest rank", bytes_text(total) + " in all"},
        width);
  };
  return line("host memory", memory->largest_host, memory->host) +
         (memory->device > 0 ? line("GPU memory", memory->largest_device, memory->device) : "");
}

}  // namespace

std::string inspection_text(const std::string& directory, const Inspection& what, int width) {
  return heading(directory, what, width) + "\n" + parameters_table(what, width) + "\n" +
         states_table(what, width) + "\n" + ranks_table(what, width) + "\n" +
         shared_lists(what, width) + "\n" + totals(what, width) + memory_lines(what, width);
}

std::string parameter_text(const Inspection& what, std::int32_t parameter, int width) {
  const ParameterSpec& spec = what.common.parameters[static_cast<std::size_t>(parameter)];
  std::vector<std::string> facts = {shape_text(spec.shape), std::string(name_of(spec.dtype)),
                                    kind_text(what, spec)};
  if (spec.group >= 0) facts.push_back("group " + std::to_string(spec.group));
  facts.push_back(count_text(static_cast<std::uint64_t>(spec.numel()), "element"));
  if (const auto steps = applied_steps_of(what, parameter)) {
    facts.push_back("applied steps " + std::to_string(*steps));
  }
  Table table({{"state", Table::Align::kLeft, true},
               {"dtype"},
               {"begin", Table::Align::kRight},
               {"end", Table::Align::kRight},
               {"rank", Table::Align::kRight},
               {"file", Table::Align::kLeft, true},
               {"offset", Table::Align::kRight},
               {"bytes", Table::Align::kRight}});
  for (const Piece& piece : pieces_of(what, owner_of(what, parameter))) {
    table.add({piece.state, std::string(name_of(piece.dtype)), std::to_string(piece.extent.begin),
               std::to_string(piece.extent.end), std::to_string(piece.rank), piece.file,
               std::to_string(piece.offset), std::to_string(piece.bytes())});
  }
  return titled_list(spec.name, facts, width) + "\n" + table.text(width);
}

}  // namespace zero::cli
