#include <map>
#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/directories.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"
#include "cli/table.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {"list", kList, "[OPTIONS] ROOT", R"(
Example:
  zero list runs/a

"whole" means that the manifest verifies and every file has its size; zero verify reads all bytes.
Directories that saves or removals have left behind are listed, too; while one is under way, its
directory looks the same.

Exit code: 0 listed, whatever the state; 2 wrong usage; 3 there is no such root, or it cannot be
read.)"};

struct ListOptions {
  std::string path;
  bool json = false;
};

struct Root {
  std::string path;
  checkpoint::Listing listing;
  std::vector<checkpoint::Leftover> leftovers;
  std::string latest;  ///< What LATEST says; empty: nothing.

  std::string newest() const {
    return listing.steps.empty() ? "" : checkpoint::step_name(listing.steps.back().step);
  }
  bool latest_is_stale() const { return !latest.empty() && latest != newest(); }
};

/// Rows by name, which is by step; leftovers come last.
std::string text_of(const Root& root, int width) {
  Table table({{"name", Table::Align::kLeft, true},
               {"run", Table::Align::kLeft, true},
               {"ranks", Table::Align::kRight},
               {"stage", Table::Align::kRight},
               {"bytes", Table::Align::kRight},
               {"state"}});
  std::map<std::string, std::vector<std::string>> rows;
  for (const checkpoint::StepInfo& step : root.listing.steps) {
    const std::string name = checkpoint::step_name(step.step);
    rows[name] = {name,
                  step.run_id,
                  std::to_string(step.world_size),
                  std::to_string(step.stage),
                  bytes_text(step.bytes),
                  "whole"};
  }
  for (const checkpoint::Damaged& damaged : root.listing.damaged) {
    rows[damaged.name] = {damaged.name, "", "",
                          "",           "", damaged.unreadable ? "unreadable" : "damaged"};
  }
  for (const auto& [name, row] : rows) table.add(row);
  for (const checkpoint::Leftover& leftover : root.leftovers) {
    table.add({leftover.name, "", "", "", bytes_text(leftover.bytes), "left over"});
  }
  std::string text = rows.empty() && root.leftovers.empty()
                         ? "no checkpoints in " + printable(root.path) + "\n"
                         : table.text(width);
  for (const checkpoint::Damaged& damaged : root.listing.damaged) {
    text += "\n" + printable(damaged.name + ": " + damaged.problem) + "\n";
  }
  if (root.latest_is_stale()) {
    text += "\nLATEST says " + printable(root.latest) + ", the newest whole one is " +
            (root.newest().empty() ? "none" : root.newest()) +
            "; nothing relies on LATEST, the next save sets it right\n";
  }
  return text;
}

std::string json_of(const Root& root) {
  Json json = {{"root", root.path},
               {"latest", nullptr},
               {"latest_is_stale", root.latest_is_stale()},
               {"steps", Json::array()},
               {"damaged", Json::array()},
               {"leftovers", Json::array()}};
  if (!root.latest.empty()) json["latest"] = root.latest;
  for (const checkpoint::StepInfo& step : root.listing.steps) {
    json["steps"].push_back({{"name", checkpoint::step_name(step.step)},
                             {"step", step.step},
                             {"run_id", step.run_id},
                             {"attempt", step.attempt},
                             {"world_size", step.world_size},
                             {"stage", step.stage},
                             {"bytes", step.bytes}});
  }
  for (const checkpoint::Damaged& damaged : root.listing.damaged) {
    json["damaged"].push_back(
        {{"name", damaged.name}, {"problem", damaged.problem}, {"unreadable", damaged.unreadable}});
  }
  for (const checkpoint::Leftover& leftover : root.leftovers) {
    json["leftovers"].push_back({{"name", leftover.name}, {"bytes", leftover.bytes}});
  }
  return to_text(json);
}

int list(const ListOptions& options) {
  const auto files = checkpoint::on_disk();
  require_root(*files, options.path);
  const Root root{options.path, checkpoint::make_hdf5_store(files, options.path)->list(),
                  checkpoint::find_leftovers(*files, options.path),
                  checkpoint::read_latest(*files, options.path)};
  print(options.json ? json_of(root) : text_of(root, width_of_output()));
  return kOk;
}

}  // namespace

Command add_list_command(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("ROOT", options->path, "The directory that holds the checkpoints")
      ->required()
      ->type_name("");
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return list(*options); }};
}

}  // namespace zero::cli
