#include <memory>

#include <CLI/CLI.hpp>

#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/locks.h"
#include "checkpoint/names.h"
#include "checkpoint/tools/reshard.h"
#include "cli/checkpoint_commands.h"
#include "cli/clock.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/long_work.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/place.h"
#include "cli/printable.h"
#include "cli/table.h"

namespace zero::cli {
namespace {

constexpr CommandTexts kTexts = {"reshard", kReshard, "[OPTIONS] SRC DST", R"(
Example:
  zero reshard runs/a runs/a-on-2 --world 2

SRC is a checkpoint's directory, or a root, whose newest checkpoint is meant; it stays as it is. DST
is a root, made if it is missing: it gets the same step of the same run, whole or not at all. What
was written is compared with the source (digests of every state) before it counts.

Exit code: 0 done; 1 SRC is damaged; 2 wrong usage, or DST has the step already; 3 there is no SRC,
files cannot be read or written, or a job lives that saves into DST; 128 + signal when stopped: DST
then has no new step.)"};

struct Options {
  std::string source;
  std::string destination;
  int world_size = 0;
  std::uint64_t memory = std::uint64_t{64} << 20;
  bool json = false;
};

std::string json_of(const std::string& directory, const checkpoint::StepInfo& source,
                    const Options& options, const checkpoint::ReshardResult& result) {
  Json json = {{"directory", directory},
               {"step", source.step},
               {"run_id", source.run_id},
               {"from_world_size", source.world_size},
               {"world_size", options.world_size},
               {"digests", Json::object()},
               {"warnings", result.commit.warnings}};
  for (const auto& [state, digest] : result.digests) {
    json["digests"][state] = checkpoint::to_text(digest);
  }
  return to_text(json);
}

std::string text_of(const std::string& directory, const checkpoint::StepInfo& source,
                    const Options& options, const checkpoint::ReshardResult& result) {
  std::string text = printable(directory) + ": step " + std::to_string(source.step) + " of " +
                     printable(source.run_id) + ", " +
                     count_text(static_cast<std::uint64_t>(source.world_size), "rank") +
                     " before, " + std::to_string(options.world_size) + " now\n\n";
  Table table({{"state", Table::Align::kLeft, true}, {"digest, before and now"}});
  for (const auto& [state, digest] : result.digests) {
    table.add({state, checkpoint::to_text(digest)});
  }
  return text + table.text(width_of_output());
}

/// Keeps jobs that save out of a root that exists: one would find a step in it that is not its own.
/// Null for a root that is to be made.
std::unique_ptr<checkpoint::FileLock> keep_jobs_out(checkpoint::FileSystem& files,
                                                    const std::string& root) {
  if (files.status(root).kind == checkpoint::FileKind::kMissing) return nullptr;
  return checkpoint::lock_root(files, root, checkpoint::RootLock::kJob, checkpoint::kLookWait);
}

int reshard_alone(const Options& options) {
  const auto files = checkpoint::on_disk();
  const std::string from = find_checkpoint(*files, options.source);
  const auto source = open_place(files, from);
  checkpoint::require_whole_common(*files, from);
  require_no_checkpoint(*files, options.destination);
  const auto lock = keep_jobs_out(*files, options.destination);
  checkpoint::Hdf5StoreOptions store_options;
  store_options.created = current_time();
  store_options.writer = "zero reshard " ZERO_VERSION;
  const auto store = checkpoint::make_hdf5_store(files, options.destination, store_options);
  checkpoint::ReshardResult result;
  run_long_work("reshard", [&](const checkpoint::Progress& progress) {
    result = checkpoint::reshard(*source, *store, {options.world_size, options.memory, progress});
  });
  const std::string directory =
      checkpoint::join_path(options.destination, checkpoint::step_name(source->info().step));
  print(options.json ? json_of(directory, source->info(), options, result)
                     : text_of(directory, source->info(), options, result));
  for (const std::string& warning : result.commit.warnings) complain("warning: " + warning);
  return kOk;
}

int reshard(const Options& options) {
  try {
    return reshard_alone(options);
  } catch (const checkpoint::RootBusy& busy) {
    throw IoError(busy.what());
  }
}

}  // namespace

Command add_reshard_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* parser = add_command(app, kTexts);
  parser->add_option("SRC", options->source, "A checkpoint's directory, or a root")
      ->required()
      ->type_name("");
  parser->add_option("DST", options->destination, "The root to write into")
      ->required()
      ->type_name("")
      ->check(not_empty());
  parser->add_option("--world", options->world_size, "How many ranks will load it")
      ->required()
      ->type_name("M")
      ->check(in_range(1, checkpoint::kMaxWorldSize));
  parser->add_option("--memory", options->memory, "Memory for buffers (default 64M)")
      ->type_name("SIZE")
      ->transform(as_bytes());
  parser->add_flag("--json", options->json, "Print JSON");
  return {parser, [options] { return reshard(*options); }};
}

}  // namespace zero::cli
