#include "cli/attempt.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

#include "cli/exit_code.h"
#include "cli/rank_group.h"

namespace zero::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTimeForLastWords{500};    // of the others after a rank has failed
constexpr milliseconds kTimeAfterTerminate{350};  // so that all is over within a second

/// The loop: ranks' output, signals, ends of processes and deadlines, on one thread, never
/// blocking.
class Attempt {
 public:
  explicit Attempt(RunContext& context)
      : context_(context), ranks_(context.console, context.keeper, context.strangers) {}

  TryEnd run(const TryIdentity& identity) {
    const int error = ranks_.start(context_.settings, identity);
    if (error != 0) {
      cannot_start(error);
    } else {
      while (!ranks_.all_ended()) turn();
    }
    ranks_.take_down();
    context_.console.end_progress();
    return end_;
  }

 private:
  void cannot_start(int error) {
    const std::string program = "'" + context_.settings.program.front() + "'";
    context_.console.say("cannot start " + program + ": " + std::strerror(error) +
                         (error == ENOENT
                              ? "; check the path, or add the program's folder to PATH"
                              : "; check that it is an executable file for this machine"));
    end_.code = error == ENOENT ? kNotFound : kCannotExecute;
    end_.failure = program + " could not be started";
  }

  void turn() {
    wait();
    for (const int signal : context_.signals.take()) react(signal);
    ranks_.read_some();
    for (const EndedRank& rank : ranks_.take_ended()) judge(rank);
    context_.console.write_some();
    act_on_deadlines();
  }

  void wait() {
    std::vector<pollfd> fds{{context_.signals.fd(), POLLIN, 0}};
    ranks_.add_to(fds);
    context_.console.add_to(fds);
    int timeout = -1;
    if (const auto next = terminate_at_ ? terminate_at_ : kill_at_) {
      const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
      timeout = static_cast<int>(std::max<std::int64_t>(left, 0));
    }
    ::poll(fds.data(), fds.size(), timeout);
  }

  void react(int signal) {
    if (signal == SIGCHLD) return;  // every turn looks
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      ranks_.signal_leaders(signal);
      return;
    }
    end_.asked_to_end = true;
    ranks_.signal_all(signal);
    if (signal == SIGHUP) return;
    if (stopping_) {
      ranks_.signal_all(SIGKILL);
      return;
    }
    stopping_ = true;
    const std::string what = signal == SIGINT ? "interrupted" : "asked to end";
    if (end_.code != kOk) {  // the ranks have not long to live anyway
      context_.console.say(what + "; a second signal kills the ranks at once");
      return;
    }
    kill_at_ = Clock::now() + std::chrono::seconds(context_.settings.grace_seconds);
    context_.console.say(what + "; waiting up to " +
                         std::to_string(context_.settings.grace_seconds) +
                         " s for the ranks, a second signal kills them at once");
  }

  void judge(const EndedRank& rank) {
    if (rank.report.code == 0) return;
    const int distance = distance_from_cause(rank.report);
    if (end_.code != kOk) {
      // Until we send signals ourselves.
      if (!terminate_at_ || distance > 0 || distance_ == 0) return;
      blame(rank);
      context_.console.say(end_.failure + "; this is taken for the cause");
      return;
    }
    blame(rank);
    const bool others_run = !ranks_.all_ended();
    context_.console.say(end_.failure +
                         (others_run && !stopping_ ? "; taking the others down" : ""));
    if (!stopping_) terminate_at_ = Clock::now() + kTimeForLastWords;
  }

  void blame(const EndedRank& rank) {
    end_.code = rank.report.code;
    end_.failure = "rank " + std::to_string(rank.number) + " " + describe(rank.report);
    distance_ = distance_from_cause(rank.report);
  }

  void act_on_deadlines() {
    const Clock::time_point now = Clock::now();
    if (terminate_at_ && now >= *terminate_at_) {
      terminate_at_.reset();
      ranks_.signal_all(SIGTERM);
      kill_at_ = now + kTimeAfterTerminate;
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      ranks_.signal_all(SIGKILL);
    }
  }

  RunContext& context_;
  RankGroup ranks_;
  TryEnd end_;
  int distance_ = 0;  // of end_.failure from the cause
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
  bool stopping_ = false;  // after SIGINT or SIGTERM
};

}  // namespace

TryEnd attempt(RunContext& context, const TryIdentity& identity) {
  return Attempt(context).run(identity);
}

}  // namespace zero::cli
