#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/locks.h"
#include "checkpoint/verify.h"
#include "cli/checkpoint_commands.h"
#include "cli/exit_code.h"
#include "cli/gc_plan.h"
#include "cli/interrupts.h"
#include "cli/json.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"
#include "cli/table.h"

namespace zero::cli {
namespace {

using checkpoint::FileSystem;

constexpr CommandTexts kTexts = {"gc", kGc, "[OPTIONS] ROOT", R"(
Examples:
  zero gc runs/a --keep 3 --keep-every 1000
  zero gc runs/a --keep 3 --keep-every 1000 --apply

Without --apply nothing is changed: it says what would go and why. What goes: directories that
crashes have left; with --keep, whole checkpoints but the newest N and those whose step is a
multiple of --keep-every; with --damaged, damaged ones (zero list says why they are). The newest
whole checkpoint never goes; with --apply every byte of it is checked before older ones go. While a
save is under way, or a training job lives that saves here, nothing is removed.

Exit code: 0 done, or nothing to do; 1 the newest checkpoint is damaged, nothing was removed;
2 wrong usage; 3 something could not be removed, a save is under way, a job lives that saves here,
or there is no such root; 128 + signal when stopped between two checkpoints.)"};

struct GcOptions {
  std::string path;
  std::string run_id;
  int keep = 0;
  int keep_every = 0;
  bool damaged = false;
  bool apply = false;
  bool json = false;
};

struct Outcome {
  std::vector<std::string> removed;   ///< Names.
  std::vector<std::string> failures;  ///< Whole sentences.
  int signal = 0;                     ///< That stopped it; 0: none did.
};

/// Throws IoError if a job that saves here lives.
void require_no_job(FileSystem& files, const std::string& root) {
  const std::string job = problem_of_job(files, root);
  if (!job.empty()) throw IoError(job);
}

/// Throws IoError if somebody saves or removes here, or a job lives.
std::unique_ptr<checkpoint::FileLock> lock_for_gc(FileSystem& files, const std::string& root) {
  require_no_job(files, root);
  try {
    return checkpoint::lock_root(files, root, checkpoint::RootLock::kSave);
  } catch (const checkpoint::RootBusy& busy) {
    throw IoError(busy.what());
  }
}

void remove_leftovers(FileSystem& files, const std::string& root, const GcPlan& plan,
                      Outcome& outcome) {
  outcome.failures = checkpoint::remove_leftovers(files, root);
  for (const Doomed& doomed : plan.doomed) {
    const std::string path = checkpoint::join_path(root, doomed.name);
    const bool is_gone = files.status(path).kind == checkpoint::FileKind::kMissing;
    if (doomed.step < 0 && is_gone) outcome.removed.push_back(doomed.name);
  }
}

/// REQUIRES the root's lock since before the plan was made, and a store that does not take it.
Outcome apply(FileSystem& files, checkpoint::Store& store, const std::string& root,
              const GcPlan& plan) {
  Outcome outcome;
  const Interrupts interrupts;
  remove_leftovers(files, root, plan, outcome);
  for (const Doomed& doomed : plan.doomed) {
    if (doomed.step < 0) continue;
    outcome.signal = interrupts.signal();
    if (outcome.signal != 0) break;
    try {
      store.remove(doomed.step);
      outcome.removed.push_back(doomed.name);
    } catch (const Error& error) {
      outcome.failures.push_back(doomed.name + ": " + error.what());
    }
  }
  return outcome;
}

/// Empty, or why older ones must stay: the newest one cannot be loaded, which its manifest and the
/// sizes of its files do not tell.
std::string problem_of_newest(FileSystem& files, const std::string& root, const GcPlan& plan) {
  const bool removes_old =
      std::ranges::any_of(plan.doomed, [](const Doomed& each) { return each.reason == "old"; });
  if (!removes_old || plan.kept.empty()) return {};
  const auto findings =
      checkpoint::verify(files, checkpoint::join_path(root, plan.kept.back())).findings;
  return findings.empty() ? std::string() : plan.kept.back() + ": " + to_text(findings.front());
}

std::string text_of(const GcPlan& plan, const Outcome* outcome, int width) {
  Table table({{outcome ? "removed" : "would go", Table::Align::kLeft, true},
               {"bytes", Table::Align::kRight},
               {"reason"},
               {"why", Table::Align::kLeft, true}});
  std::uint64_t bytes = 0, rows = 0;
  for (const Doomed& doomed : plan.doomed) {
    if (outcome && std::ranges::find(outcome->removed, doomed.name) == outcome->removed.end()) {
      continue;
    }
    table.add({doomed.name, bytes_text(doomed.bytes), doomed.reason, doomed.why});
    bytes += doomed.bytes;
    ++rows;
  }
  std::string text = rows == 0 ? "" : table.text(width) + "\n";
  for (const checkpoint::Damaged& damaged : plan.damaged) {
    const std::string why =
        damaged.unreadable ? "cannot be read, stays: " : "damaged, stays without --damaged: ";
    text += printable(why + damaged.name + ": " + damaged.problem) + "\n";
  }
  if (!plan.note.empty()) text += printable(plan.note) + "\n";
  if (plan.doomed.empty()) return text + "nothing to remove\n";
  return text + bytes_text(bytes) + (outcome ? " freed\n" : " would be freed; --apply does it\n");
}

std::string json_of(const std::string& root, const GcPlan& plan, const Outcome* outcome) {
  Json json = {{"root", root},
               {"applied", outcome != nullptr},
               {"bytes", plan.bytes()},
               {"remove", Json::array()},
               {"keep", plan.kept},
               {"damaged", Json::array()},
               {"removed", outcome ? outcome->removed : std::vector<std::string>()},
               {"failures", outcome ? outcome->failures : std::vector<std::string>()},
               {"note", plan.note}};
  for (const Doomed& doomed : plan.doomed) {
    json["remove"].push_back({{"name", doomed.name},
                              {"reason", doomed.reason},
                              {"bytes", doomed.bytes},
                              {"why", doomed.why}});
  }
  for (const checkpoint::Damaged& damaged : plan.damaged) {
    json["damaged"].push_back(
        {{"name", damaged.name}, {"problem", damaged.problem}, {"unreadable", damaged.unreadable}});
  }
  return to_text(json);
}

int gc(const GcOptions& options) {
  const auto files = checkpoint::on_disk();
  require_root(*files, options.path);
  // One lock around looking and removing: what looked damaged may be whole a moment later.
  const auto lock = options.apply ? lock_for_gc(*files, options.path) : nullptr;
  checkpoint::Hdf5StoreOptions store_options;
  store_options.lock = false;
  const auto store = checkpoint::make_hdf5_store(files, options.path, store_options);
  GcRules rules;
  rules.retention.keep = options.keep;
  rules.retention.keep_every = options.keep_every;
  rules.retention.run_id = options.run_id;
  rules.damaged = options.damaged;
  const GcPlan plan = plan_gc(*files, *store, options.path, rules, options.apply);
  Outcome outcome;
  if (options.apply) {
    const std::string problem = problem_of_newest(*files, options.path, plan);
    if (!problem.empty()) {
      complain("the newest checkpoint is damaged, nothing was removed (zero verify says more): " +
               problem);
      return kNo;
    }
  }
  if (options.apply) {
    require_no_job(*files, options.path);  // checking every byte takes long: one may have come
    outcome = apply(*files, *store, options.path, plan);
  }
  const Outcome* applied = options.apply ? &outcome : nullptr;
  print(options.json ? json_of(options.path, plan, applied)
                     : text_of(plan, applied, width_of_output()));
  for (const std::string& failure : outcome.failures) complain(failure);
  if (outcome.signal != 0) throw Interrupted(outcome.signal);
  return outcome.failures.empty() ? kOk : kInputOutput;
}

}  // namespace

Command add_gc_command(CLI::App& app) {
  constexpr int kMost = 1'000'000'000;
  auto options = std::make_shared<GcOptions>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("ROOT", options->path, "The directory that holds the checkpoints")
      ->required()
      ->type_name("");
  CLI::Option* keep =
      parser->add_option("--keep", options->keep, "Keep the newest N whole ones (default: all)")
          ->type_name("N")
          ->check(in_range(1, kMost));
  parser
      ->add_option("--keep-every", options->keep_every, "Keep those whose step is a multiple of M")
      ->type_name("M")
      ->check(in_range(1, kMost))
      ->needs(keep);
  parser->add_option("--run", options->run_id, "Count and remove old ones of this run only")
      ->type_name("ID")
      ->check(not_empty())
      ->needs(keep);
  parser->add_flag("--damaged", options->damaged, "Remove damaged ones, too");
  parser->add_flag("--apply", options->apply, "Remove; without it, only say what would go");
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return gc(*options); }};
}

}  // namespace zero::cli
