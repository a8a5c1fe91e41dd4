#include "examples/minigpt/saves.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace minigpt {
namespace {

constexpr int kMaxFailuresInARow = 3;

zero::CheckpointOptions options_of(const Flags& flags, const Say& say) {
  zero::CheckpointOptions options;
  options.keep(flags.keep).async(flags.async_save);
  options.log([say](zero::LogLevel, std::string_view line) { say(std::string(line)); });
  return options;
}

bool lies_in(const std::string& directory, const std::string& root) {
  std::error_code ignored;
  const auto parent = std::filesystem::absolute(directory).lexically_normal().parent_path();
  return std::filesystem::equivalent(parent, root, ignored);
}

}  // namespace

Saves::Saves(const Flags& flags, zero::Optimizer& optimizer, const RunState& run, const Say& say)
    : flags_(flags),
      optimizer_(optimizer),
      run_(run),
      say_(say),
      checkpointer_(optimizer, flags.checkpoint, options_of(flags, say)) {}

void Saves::has_loaded(const zero::LoadReport& report) {
  if (lies_in(report.directory, flags_.checkpoint)) saved_step_ = report.step;
}

void Saves::now() {
  const std::int64_t step = optimizer_.steps_taken();
  if (step == saved_step_ || step == pending_step_) return;
  checkpointer_.save(run_.to_save());
  pending_step_ = step;
  if (!flags_.async_save) collect();
}

void Saves::collect() {
  const std::int64_t step = std::exchange(pending_step_, -1);
  if (step < 0) return;
  checkpointer_.finish();
  saved_step_ = step;
  failures_in_a_row_ = 0;
}

void Saves::if_due() {
  if (flags_.save_every == 0 || optimizer_.steps_taken() % flags_.save_every != 0) return;
  forgive([this] { collect(); });
  forgive([this] { now(); });
}

/// Where the disk refuses, the next save may succeed. Not for ever: people who do not read what a
/// run says must not lose days of it.
template <class Function>
void Saves::forgive(Function function) {
  try {
    function();
  } catch (const zero::IoError& error) {
    if (++failures_in_a_row_ == kMaxFailuresInARow) {
      throw zero::IoError(
          "saving failed " + std::to_string(kMaxFailuresInARow) +
          " times in a row; make room, then go on with --resume auto: " + error.what());
    }
    say_("warning: saving failed, the next save is another try (" +
         std::to_string(failures_in_a_row_) + " in a row; the run ends at " +
         std::to_string(kMaxFailuresInARow) + "): " + error.what());
  }
}

void Saves::for_good() {
  failures_in_a_row_ = 0;
  forgive([this] { collect(); });
  try {
    now();
    collect();
  } catch (const zero::IoError& error) {
    throw zero::IoError(
        std::string("the last save failed and the run ends without it; make room, then go on with "
                    "--resume auto: ") +
        error.what());
  }
}

}  // namespace minigpt
