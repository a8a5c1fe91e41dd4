#include "cli/estimate_report.h"

#include <algorithm>
#include <map>

#include "cli/json.h"
#include "cli/numbers.h"
#include "cli/table.h"
#include "libzero/estimate/checked.h"

namespace zero::cli {
namespace {

std::string size(std::int64_t bytes) {
  return bytes == 0 ? "-" : bytes_text(static_cast<std::uint64_t>(bytes));
}

/// What is in no column of its own.
std::int64_t others(const MemoryEstimate& memory) {
  return memory.report.total() - memory.report.by_formula() + memory.waiting;
}

std::string text_of_fits(const EstimateReport& report) {
  std::map<int, int> first;  // stage, fewest ranks
  std::string text;
  for (const EstimateRow& row : report.rows) {
    const auto [entry, is_new] = first.emplace(row.stage, 0);
    if (report.fits(row) && (entry->second == 0 || row.world_size < entry->second)) {
      entry->second = row.world_size;
    }
  }
  for (const auto& [stage, ranks] : first) {
    text += (text.empty() ? "" : "; ") + std::string("stage ") + std::to_string(stage) +
            (ranks == 0 ? " on none of these"
                        : " from " + count_text(static_cast<std::uint64_t>(ranks), "rank"));
  }
  return "fits in " + size(*report.limit) + ": " + text + "\n";
}

Table::Column number_column(const char* title) {
  return {title, Table::Align::kRight};
}

std::vector<Table::Column> columns_of(const EstimateReport& report) {
  std::vector<Table::Column> columns;
  for (const char* title : {"stage", "ranks", "parameters", "gradients", "accumulator", "master"})
    columns.push_back(number_column(title));
  if (report.has_moments()) columns.push_back(number_column("moments"));
  if (report.kept.ema) columns.push_back(number_column("average"));
  for (const char* title : {"other", "activations", "a rank", "elsewhere"})
    columns.push_back(number_column(title));
  columns.push_back({"fits"});
  return columns;
}

std::vector<std::string> cells_of(const EstimateReport& report, const EstimateRow& row) {
  const MemoryReport& memory = row.memory.report;
  std::vector<std::string> cells = {std::to_string(row.stage), std::to_string(row.world_size),
                                    size(memory.parameters),   size(memory.gradients),
                                    size(memory.accumulator),  size(memory.master)};
  if (report.has_moments())
    cells.push_back(size(memory.exp_avg + memory.exp_avg_sq + memory.momentum_buffer));
  if (report.kept.ema) cells.push_back(size(memory.ema));
  cells.push_back(size(others(row.memory)));
  cells.push_back(report.activations ? size(report.activations->total()) : "?");
  cells.push_back(size(report.total(row)));
  cells.push_back(size(memory.offloaded));
  cells.push_back(!report.limit ? "" : report.fits(row) ? "yes" : "no");
  return cells;
}

}  // namespace

std::int64_t EstimateReport::total(const EstimateRow& row) const {
  return size_sum({row.memory.total(), activations ? activations->total() : 0});
}

bool EstimateReport::any_fits() const {
  return std::ranges::any_of(rows, [&](const EstimateRow& row) { return fits(row); });
}

std::string estimate_text(const EstimateReport& report, int width) {
  Table table(columns_of(report));
  for (const EstimateRow& row : report.rows) table.add(cells_of(report, row));
  std::string text = std::to_string(report.elements) + " trainable elements, " + report.precision +
                     "; " + report.kept.text() + "; of each rank:\n\n" + table.text(width);
  if (!report.activations) {
    text +=
        "\nactivations are not counted: give --layers, --hidden, --heads and --context as well\n";
  }
  if (report.limit) text += "\n" + text_of_fits(report);
  return text;
}

std::string estimate_json(const EstimateReport& report) {
  Json json = {{"elements", report.elements},
               {"precision", report.precision},
               {"optimizer", report.kept.rule},
               {"momentum", report.kept.momentum},
               {"ema", report.kept.ema},
               {"state", report.state},
               {"limit", nullptr},
               {"activations", nullptr},
               {"rows", Json::array()}};
  if (report.limit) json["limit"] = *report.limit;
  if (report.activations) {
    json["activations"] = {{"layers", report.activations->layers},
                           {"head", report.activations->head},
                           {"working", report.activations->working}};
  }
  for (const EstimateRow& row : report.rows) {
    const MemoryReport& memory = row.memory.report;
    Json line = {{"stage", row.stage},
                 {"world_size", row.world_size},
                 {"parameters", memory.parameters},
                 {"gradients", memory.gradients},
                 {"accumulator", memory.accumulator},
                 {"master", memory.master},
                 {"exp_avg", memory.exp_avg},
                 {"exp_avg_sq", memory.exp_avg_sq},
                 {"momentum_buffer", memory.momentum_buffer},
                 {"ema", memory.ema},
                 {"alignment", memory.alignment},
                 {"block_sums", memory.block_sums},
                 {"staging", memory.staging},
                 {"offload_ring", memory.offload_ring},
                 {"frozen", memory.frozen},
                 {"buffers", memory.buffers},
                 {"waiting", row.memory.waiting},
                 {"offloaded", row.memory.report.offloaded},
                 {"total", report.total(row)},
                 {"fits", nullptr}};
    if (report.limit) line["fits"] = report.fits(row);
    json["rows"].push_back(line);
  }
  return to_text(json);
}

}  // namespace zero::cli
