#include "examples/minigpt/checkpoints.h"

#include <csignal>
#include <utility>
#include <vector>

#include "examples/minigpt/failure.h"
#include "examples/minigpt/setup.h"

namespace minigpt {
namespace {

void say_lines(const Say& say, std::string text) {
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
    : flags_(flags),
      optimizer_(optimizer),
      comm_(comm),
      say_(std::move(say)),
      run_(flags, windows) {}

void Checkpoints::begin() {
  together([this] { open_and_take_up(); });
}

void Checkpoints::open_and_take_up() {
  if (!flags_.checkpoint.empty()) saves_.emplace(flags_, optimizer_, run_, say_);
  const bool has_resumed = !flags_.resume.empty() && resume();
  if (!has_resumed && !flags_.load_parameters.empty()) load_parameters();
  if (flags_.save_initial) saves_->now();
}

bool Checkpoints::resume() {
  const bool is_auto = flags_.resume == "auto";
  const auto options = zero::LoadOptions()
                           .reshard_on_load(flags_.reshard_on_load)
                           .keep_options(names_of_options_from_flags(flags_))
                           .required(RunState::required());
  const zero::LoadReport report =
      is_auto ? saves_->resume(options) : optimizer_.load(flags_.resume, options);
  if (!report.found) {
    if (!is_auto)
      throw zero::ContractError("--resume: there is no checkpoint here: " + flags_.resume);
    say_("no checkpoint in " + flags_.checkpoint + " yet: starting fresh");
    return false;
  }
  run_.go_on_from(report.trainer);
  if (const std::string changes = run_.changed_flags(report.trainer); !changes.empty())
    say_("warning: goes on with other flags, so the result will be another: " + changes);
  say_lines(say_, to_text(report));
  if (saves_) saves_->has_loaded(report);
  say_("resumed after step " + std::to_string(report.step));
  return true;
}

void Checkpoints::load_parameters() {
  const auto options = zero::LoadParametersOptions().allow_dtype_change(true);
  const auto report = naming("--load-parameters", [&] {
    return optimizer_.load_parameters(flags_.load_parameters, options);
  });
  say_lines(say_, "parameters from " + report.file + "\n" + to_text(report));
}

void Checkpoints::request_stop_if_signalled() {
  if (signals_.received() != 0) optimizer_.request_stop();
}

void Checkpoints::save_if_due(bool is_last) {
  if (!saves_) return;
  together([&] { is_last ? saves_->for_good() : saves_->if_due(); });
}

void Checkpoints::leave() {
  const std::string start = "stopped by " + who_stopped() + " after step " +
                            std::to_string(optimizer_.steps_taken()) + "; ";
  if (!saves_) {
    say_(start + "nothing was saved: there is no --checkpoint");
    return;
  }
  together([this] { saves_->for_good(); });
  say_(start + "saved in " + flags_.checkpoint + "; go on with --resume auto");
}

void Checkpoints::finish() {
  if (saves_) together([this] { saves_->collect(); });
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
