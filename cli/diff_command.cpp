#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/tools/diff.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/long_work.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {"diff", kDiff, "[OPTIONS] A B", R"(
Example:
  zero diff runs/a/step_000000000400 runs/b/step_000000000400

A and B are checkpoints' directories, or roots, whose newest checkpoints are meant. Parameters are
compared by name, every state bit by bit, further group options, scaler, counters and shared blobs.
World sizes, stages, layouts, run ids and ranks' own blobs may differ.

Exit code: 0 the same training state; 1 it differs, or one is damaged; 2 wrong usage; 3 one is not
there, or cannot be read; 128 + signal when stopped.)"};

struct DiffOptions {
  std::string a;
  std::string b;
  bool json = false;
};

std::string text_of(const DiffOptions& options,
                    const std::vector<checkpoint::Difference>& differences) {
  std::string text;
  for (const checkpoint::Difference& difference : differences) {
    text += printable(difference.subject + ": " + difference.problem) + "\n";
  }
  const std::string both = printable(options.a) + " and " + printable(options.b);
  if (differences.empty()) return both + " hold the same training state\n";
  return text + both + " differ: " + count_text(differences.size(), "difference") + "\n";
}

std::string json_of(const DiffOptions& options,
                    const std::vector<checkpoint::Difference>& differences) {
  Json list = Json::array();
  for (const checkpoint::Difference& difference : differences) {
    list.push_back({{"subject", difference.subject},
                    {"problem", difference.problem},
                    {"elements", difference.elements},
                    {"largest_difference", json_number(difference.largest_difference)}});
  }
  return to_text(Json{
      {"a", options.a}, {"b", options.b}, {"equal", differences.empty()}, {"differences", list}});
}

int diff(const DiffOptions& options) {
  const auto files = checkpoint::on_disk();
  const auto a = open_place(files, options.a);
  const auto b = open_place(files, options.b);
  std::vector<checkpoint::Difference> differences;
  run_long_work("diff", [&](const checkpoint::Progress& progress) {
    differences = checkpoint::diff(*a, *b, progress);
  });
  print(options.json ? json_of(options, differences) : text_of(options, differences));
  return differences.empty() ? kOk : kNo;
}

}  // namespace

Command add_diff_command(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("A", options->a, "A checkpoint's directory, or a root")
      ->required()
      ->type_name("");
  parser->add_option("B", options->b, "Another one")->required()->type_name("");
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return diff(*options); }};
}

}  // namespace zero::cli
