#include "cli/trace_command.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/long_work.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "libzero/observe/trace_merge.h"

namespace zero::cli {
namespace {

using observe::MergedRank;
using observe::MergeResult;

constexpr CommandTexts kFamily = {"trace", "Work on timelines that ranks have recorded.", "COMMAND",
                                  R"(
Example: zero trace merge all.json profile)"};

constexpr CommandTexts kMerge = {"merge", "Put the timelines of several ranks into one file.",
                                 "[OPTIONS] OUT FILE...|DIR", R"(
Examples:
  zero trace merge all.json profile
  zero trace merge all.json profile/trace-rank-0000.json profile/trace-rank-0001.json

DIR is a folder of timelines (minigpt --profile-dir). OUT is a new file: nothing is overwritten.
Open it at https://ui.perfetto.dev or chrome://tracing: one process for each rank, all on the clock
of the lowest. Clocks of different machines are aligned by the collectives that both ranks made:
the answer says how exactly.

Exit code: 0 done; 1 a file is no timeline, is damaged or of another run; 2 wrong usage, or OUT
exists; 3 files cannot be read or written; 128 + signal when stopped: there is no OUT then.)",
                                 "trace "};

struct Options {
  std::string out;
  std::vector<std::string> places;
  bool json = false;
};

std::string json_of(const Options& options, const MergeResult& result) {
  Json ranks = Json::array();
  for (const MergedRank& rank : result.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"file", rank.file},
                     {"events", rank.events},
                     {"dropped", rank.dropped},
                     {"offset_ns", rank.clock.offset},
                     {"error_ns", rank.clock.error},
                     {"collectives", rank.clock.collectives}});
  }
  return to_text(Json{{"out", options.out}, {"ranks", ranks}, {"warnings", result.warnings}});
}

std::string clock_text(const MergedRank& rank) {
  if (rank.clock.collectives == 0) return "same clock";
  char text[128];
  std::snprintf(
      text, sizeof text, "clock off by %.1f us, known to +- %.1f us from %s",
      static_cast<double>(rank.clock.offset) * 1e-3, static_cast<double>(rank.clock.error) * 1e-3,
      count_text(static_cast<std::uint64_t>(rank.clock.collectives), "collective").c_str());
  return text;
}

std::string text_of(const Options& options, const MergeResult& result) {
  std::string text = printable(options.out) + "\n";
  for (const MergedRank& rank : result.ranks) {
    text += "rank " + std::to_string(rank.rank) + ": " +
            count_text(static_cast<std::uint64_t>(rank.events), "event") + ", " + clock_text(rank) +
            "\n";
  }
  return text;
}

int merge(const Options& options) {
  std::vector<std::string> files;
  for (const std::string& place : options.places)
    std::ranges::copy(observe::timelines_in(place), std::back_inserter(files));
  MergeResult result;
  run_long_work("merge", [&](const checkpoint::Progress& progress) {
    result = observe::merge_timelines(files, options.out, [&](auto done, auto total) {
      if (!progress(done, total)) throw checkpoint::Cancelled("merge: stopped");
    });
  });
  print(options.json ? json_of(options, result) : text_of(options, result));
  for (const std::string& warning : result.warnings) complain("warning: " + warning);
  return kOk;
}

}  // namespace

Command add_trace_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* family = add_command(app, kFamily);
  family->require_subcommand(0, 1);  // 1 would hide a mistyped command: see below
  CLI::App* parser = add_command(*family, kMerge);
  parser->add_option("OUT", options->out, "The file to write")
      ->required()
      ->type_name("")
      ->check(not_empty());
  parser->add_option("FILE", options->places, "Timelines, or a folder of them")
      ->required()
      ->type_name("");
  parser->add_flag("--json", options->json, "Print JSON");
  return {family, [family, parser, options] {
            if (!parser->parsed()) throw CLI::RequiredError("A command of " + family->get_name());
            return merge(*options);
          }};
}

}  // namespace zero::cli
