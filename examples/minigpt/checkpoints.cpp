#include "examples/minigpt/checkpoints.h"

#include <bit>
#include <csignal>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "examples/minigpt/failure.h"
#include "examples/minigpt/trajectory.h"

namespace minigpt {
namespace {

// Counters beside the optimizer's own. The last two say what "samples_seen" counts.
constexpr const char* kSamplesSeen = "samples_seen";
constexpr const char* kSeed = "seed";
constexpr const char* kWindows = "windows";

constexpr const char* kFlags = "flags";  // a blob: what decides the run's course

constexpr int kMaxFailuresInARow = 3;

zero::CheckpointOptions options_of(const Flags& flags, const Checkpoints::Say& say) {
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

void say_lines(const Checkpoints::Say& say, std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  say(text);
}

}  // namespace

/// What every rank throws alike: leave together, or one goes first and the others take that for a
/// failure.
template <class Function>
void Checkpoints::together(Function function) {
  try {
    function();
  } catch (const zero::CommError&) {
    throw;
  } catch (const zero::Error&) {
    optimizer_.shutdown();
    comm_.shutdown();
    throw;
  }
}

Checkpoints::Checkpoints(const Flags& flags, zero::Optimizer& optimizer, zero::Collective& comm,
                         std::int64_t windows, Say say)
    : flags_(flags), optimizer_(optimizer), comm_(comm), windows_(windows), say_(std::move(say)) {}

void Checkpoints::begin() {
  together([this] { open_and_take_up(); });
}

void Checkpoints::open_and_take_up() {
  if (!flags_.checkpoint.empty())
    checkpointer_.emplace(optimizer_, flags_.checkpoint, options_of(flags_, say_));
  const bool has_resumed = !flags_.resume.empty() && resume();
  if (!has_resumed && !flags_.load_parameters.empty()) {
    const auto options = zero::LoadParametersOptions().allow_dtype_change(true);
    const auto report = naming("--load-parameters", [&] {
      return optimizer_.load_parameters(flags_.load_parameters, options);
    });
    say_lines(say_, "parameters from " + report.file + "\n" + to_text(report));
  }
  if (flags_.save_initial) save();
}

bool Checkpoints::resume() {
  const bool is_auto = flags_.resume == "auto";
  std::set<std::string> of_flags = {"weight_decay"};  // which count, whatever the checkpoint says
  if (flags_.optimizer == "sgd") {
    of_flags.insert("momentum");
  } else {
    of_flags.insert({"beta1", "beta2"});
  }
  const auto options = zero::LoadOptions()
                           .reshard_on_load(flags_.reshard_on_load)
                           .keep_options(of_flags)
                           .required({kSamplesSeen, kSeed, kWindows});
  const zero::LoadReport report =
      is_auto ? checkpointer_->resume(options) : optimizer_.load(flags_.resume, options);
  if (!report.found) {
    if (!is_auto)
      throw zero::ContractError("--resume: there is no checkpoint here: " + flags_.resume);
    say_("no checkpoint in " + flags_.checkpoint + " yet: starting fresh");
    return false;
  }
  check_flags_of(report);
  warn_of_changed_flags(report);
  say_lines(say_, to_text(report));
  samples_seen_ = report.trainer.counters.at(kSamplesSeen);
  run_id_ = report.trainer.run_id;
  if (checkpointer_ && lies_in(report.directory, flags_.checkpoint)) saved_step_ = report.step;
  say_("resumed after step " + std::to_string(report.step));
  return true;
}

void Checkpoints::check_flags_of(const zero::LoadReport& report) const {
  const auto require = [&](const char* counter, std::int64_t mine, const char* flag) {
    const std::int64_t theirs = report.trainer.counters.at(counter);
    if (theirs == mine) return;
    throw zero::ContractError(
        std::string("--resume: the checkpoint's position in the data means other samples here; "
                    "pass the flags of the run that saved it (") +
        flag + "): " + counter + " is " + std::to_string(mine) + ", was " + std::to_string(theirs));
  };
  require(kSeed, std::bit_cast<std::int64_t>(flags_.seed), "--seed");
  require(kWindows, windows_, "--data and --context");
}

void Checkpoints::warn_of_changed_flags(const zero::LoadReport& report) const {
  const auto flags = report.trainer.blobs.find(kFlags);
  if (flags == report.trainer.blobs.end()) return;
  const std::string changes = changes_of_trajectory(flags->second, flags_);
  if (!changes.empty())
    say_("warning: goes on with other flags, so the result will be another: " + changes);
}

void Checkpoints::request_stop_if_signalled() {
  if (signals_.received() != 0) optimizer_.request_stop();
}

void Checkpoints::save_if_due(bool is_last) {
  if (!checkpointer_) return;
  const bool is_due = flags_.save_every > 0 && optimizer_.steps_taken() % flags_.save_every == 0;
  if (is_last)
    together([this] { save_for_good(); });
  else if (is_due)
    together([this] { try_to_save(); });
}

void Checkpoints::try_to_save() {
  forgive([this] { collect(); });
  forgive([this] { save(); });
}

/// Where the disk refuses, the next save may succeed. Not for ever: people who do not read what a
/// run says must not lose days of it.
template <class Function>
void Checkpoints::forgive(Function function) {
  try {
    function();
  } catch (const zero::IoError& error) {  // the same on every rank
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

/// The last chance. An earlier save's failure, which may come out only now, does not count.
void Checkpoints::save_for_good() {
  failures_in_a_row_ = 0;
  forgive([this] { collect(); });
  try {
    save();
    collect();
  } catch (const zero::IoError& error) {
    throw zero::IoError(
        std::string("the last save failed and the run ends without it; make room, then go on with "
                    "--resume auto: ") +
        error.what());
  }
}

void Checkpoints::save() {
  const std::int64_t step = optimizer_.steps_taken();
  if (step == saved_step_ || step == pending_step_) return;
  checkpointer_->save(trainer_state());
  pending_step_ = step;
  if (!flags_.async_save) collect();
}

/// Learns how the latest save ended.
void Checkpoints::collect() {
  const std::int64_t step = std::exchange(pending_step_, -1);
  if (step < 0) return;
  checkpointer_->finish();
  saved_step_ = step;
  failures_in_a_row_ = 0;
}

zero::TrainerState Checkpoints::trainer_state() const {
  zero::TrainerState state;
  state.run_id = run_id_;
  state.counters = {{kSamplesSeen, samples_seen_},
                    {kSeed, std::bit_cast<std::int64_t>(flags_.seed)},
                    {kWindows, windows_}};
  state.blobs[kFlags] = remember_trajectory(flags_);
  return state;
}

void Checkpoints::leave() {
  const std::string start = "stopped by " + who_stopped() + " after step " +
                            std::to_string(optimizer_.steps_taken()) + "; ";
  if (!checkpointer_) {
    say_(start + "nothing was saved: there is no --checkpoint");
    return;
  }
  together([this] { save_for_good(); });
  say_(start + "saved in " + flags_.checkpoint + "; go on with --resume auto");
}

void Checkpoints::finish() {
  if (checkpointer_) together([this] { collect(); });
}

/// "SIGTERM on rank 1": the first rank that a signal reached.
std::string Checkpoints::who_stopped() {
  const std::int64_t mine = signals_.received();
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm_.size()));
  comm_
      .all_gather({&mine, 1, zero::DType::kInt64}, {all.data(), comm_.size(), zero::DType::kInt64},
                  "who was asked to stop")
      ->wait();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    const std::string signal = all[rank] == SIGTERM ? "SIGTERM" : "SIGUSR1";
    return signal + " on rank " + std::to_string(rank);
  }
  return "a request";
}

}  // namespace minigpt
