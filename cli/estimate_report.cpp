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

}  // namespace

std::int64_t EstimateReport::total(const EstimateRow& row) const {
  return size_sum({row.memory.total(), activations ? activations->total() : 0});
}

bool EstimateReport::any_fits() const {
  return std::ranges::any_of(rows, [&](const EstimateRow& row) { return fits(row); });
}

std::string estimate_text(const EstimateReport& report, int width) {
  Table table({number_column("stage"),
               number_column("ranks"),
               number_column("parameters"),
               number_column("gradients"),
               number_column("accumulator"),
               number_column("master"),
               number_column("moments"),
               number_column("other"),
               number_column("activations"),
               number_column("a rank"),
               number_column("elsewhere"),
               {"fits"}});
  for (const EstimateRow& row : report.rows) {
    const MemoryReport& memory = row.memory.report;
    table.add({std::to_string(row.stage), std::to_string(row.world_size), size(memory.parameters),
               size(memory.gradients), size(memory.accumulator), size(memory.master),
               size(memory.exp_avg + memory.exp_avg_sq), size(others(row.memory)),
               report.activations ? size(report.activations->total()) : "?",
               size(report.total(row)), size(row.memory.offloaded),
               !report.limit      ? ""
               : report.fits(row) ? "yes"
                                  : "no"});
  }
  std::string text = std::to_string(report.elements) + " trainable elements, " + report.precision +
                     "; of each rank:\n\n" + table.text(width);
  if (!report.activations) {
    text +=
        "\nactivations are not counted: give --layers, --hidden, --heads and --context as well\n";
  }
  if (report.limit) text += "\n" + text_of_fits(report);
  return text;
}

std::string estimate_json(const EstimateReport& report) {
  Json json = {{"elements", report.elements}, {"precision", report.precision},
               {"state", report.state},       {"limit", nullptr},
               {"activations", nullptr},      {"rows", Json::array()}};
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
                 {"alignment", memory.alignment},
                 {"block_sums", memory.block_sums},
                 {"staging", memory.staging},
                 {"frozen", memory.frozen},
                 {"buffers", memory.buffers},
                 {"waiting", row.memory.waiting},
                 {"offloaded", row.memory.offloaded},
                 {"total", report.total(row)},
                 {"fits", nullptr}};
    if (report.limit) line["fits"] = report.fits(row);
    json["rows"].push_back(line);
  }
  return to_text(json);
}

}  // namespace zero::cli
