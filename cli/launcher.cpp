#include "cli/launcher.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/rendezvous/keyed_hash.h"
#include "backends/rendezvous/store_server.h"
#include "cli/exit_code.h"
#include "cli/keeper.h"
#include "cli/outlet.h"
#include "cli/rank_output.h"
#include "cli/rank_process.h"
#include "cli/signals.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTimeForLastWords{500};    // of the others after a rank has failed
constexpr milliseconds kTimeAfterTerminate{350};  // so that all is over within a second
constexpr milliseconds kGrace{5000};              // after SIGINT or SIGTERM to the launcher

struct Rank {
  Rank(int number_, RankProcess& process, Outlet& out_outlet, Outlet& err_outlet)
      : number(number_),
        pid(process.pid),
        out(std::move(process.out), rank_prefix(number_, out_outlet), out_outlet),
        err(std::move(process.err), rank_prefix(number_, err_outlet), err_outlet) {}

  int number;
  pid_t pid;
  bool ended = false;
  RankOutput out;
  RankOutput err;
};

bool are_same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// The loop: ranks' output, signals, ends of processes and deadlines, on one thread, never
/// blocking.
class Launcher {
 public:
  explicit Launcher(const RunSettings& settings) : settings_(settings) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave behind comes here
    // One queue where both go to the same place, or lines would tear.
    if (!are_same_file(STDOUT_FILENO, STDERR_FILENO)) separate_err_.emplace(STDERR_FILENO);
  }

  ~Launcher() { take_all_down(); }

  int run(const RunIdentity& identity) {
    const bool started = start(identity);
    while (started && !all_ended()) turn();
    take_all_down();
    out_.end_progress();
    err().end_progress();
    flush();
    report_lost_output();
    return exit_code_.value_or(kOk);
  }

 private:
  Outlet& err() { return separate_err_ ? *separate_err_ : out_; }
  void say(const std::string& text) { err().line("zero run: ", text); }
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
  }

  bool start(const RunIdentity& identity) {
    const Variables base = current_environment();
    for (int rank = 0; rank < settings_.ranks; ++rank) {
      RankProcess process =
          start_rank(settings_.program, rank_environment(base, settings_, identity, rank));
      keeper_.watch(process.pid);
      const int error = process.start_error;
      ranks_.emplace_back(rank, process, out_, err());
      if (error == 0) continue;
      say("cannot start '" + settings_.program.front() + "': " + std::strerror(error) +
          (error == ENOENT ? "; check the path, or add the program's folder to PATH"
                           : "; check that it is an executable file for this machine"));
      exit_code_ = error == ENOENT ? kNotFound : kCannotExecute;
      return false;
    }
    return true;
  }

  void turn() {
    wait();
    for (const int signal : signals_.take()) react(signal);
    for (Rank& rank : ranks_) {
      if (rank.out.outlet().has_room()) rank.out.read_some();
      if (rank.err.outlet().has_room()) rank.err.read_some();
      if (!rank.ended) look_at_end(rank);
    }
    out_.write_some();
    err().write_some();
    act_on_deadlines();
  }

  void wait() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    const auto add_source = [&](RankOutput& output) {
      if (output.fd() >= 0 && output.outlet().has_room()) fds.push_back({output.fd(), POLLIN, 0});
    };
    for (Rank& rank : ranks_) {
      add_source(rank.out);
      add_source(rank.err);
    }
    if (!out_.is_empty()) fds.push_back({out_.fd(), POLLOUT, 0});
    if (separate_err_ && !separate_err_->is_empty()) {
      fds.push_back({separate_err_->fd(), POLLOUT, 0});
    }
    int timeout = -1;
    if (const auto next = next_deadline()) {
      const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
      timeout = static_cast<int>(std::max<std::int64_t>(left, 0));
    }
    ::poll(fds.data(), fds.size(), timeout);
  }

  std::optional<Clock::time_point> next_deadline() const {
    return terminate_at_ ? terminate_at_ : kill_at_;
  }

  void act_on_deadlines() {
    const Clock::time_point now = Clock::now();
    if (terminate_at_ && now >= *terminate_at_) {
      terminate_at_.reset();
      to_groups(SIGTERM);
      kill_at_ = now + kTimeAfterTerminate;
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      to_groups(SIGKILL);
    }
  }

  void react(int signal) {
    if (signal == SIGCHLD) return;  // every turn looks
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      for (const Rank& rank : ranks_) {
        if (!rank.ended) ::kill(rank.pid, signal);
      }
      return;
    }
    to_groups(signal);
    if (signal == SIGHUP) return;
    if (stopping_) {
      to_groups(SIGKILL);
      return;
    }
    stopping_ = true;
    if (!terminate_at_) kill_at_ = Clock::now() + kGrace;
    say(std::string(signal == SIGINT ? "interrupted" : "asked to end") +
        "; waiting up to 5 s for the ranks, a second signal kills them at once");
  }

  /// Groups of ranks that have ended keep their number until the end: they are reaped last.
  void to_groups(int signal) {
    for (const Rank& rank : ranks_) {
      ::kill(-rank.pid, signal);
      if (signal == SIGKILL && !rank.ended) ::kill(rank.pid, signal);  // it may have left its group
    }
  }

  void look_at_end(Rank& rank) {
    const ExitReport report = look_at(rank.pid);
    if (!report.ended) return;
    rank.ended = true;
    rank.out.drain();
    rank.err.drain();
    if (report.code == 0 || exit_code_) return;
    exit_code_ = report.code;
    const bool alone = settings_.ranks == 1 || all_ended();
    say("rank " + std::to_string(rank.number) + " " + describe(report) +
        (alone || stopping_ ? "" : "; taking the others down"));
    if (!stopping_) terminate_at_ = Clock::now() + kTimeForLastWords;
  }

  void take_all_down() {
    if (over_) return;
    over_ = true;
    to_groups(SIGKILL);
    std::vector<pid_t> spare = strangers_;
    spare.push_back(keeper_.pid());
    kill_orphans(spare);
    for (Rank& rank : ranks_) {
      rank.out.drain();
      rank.err.drain();
      rank.out.close();
      rank.err.close();
    }
  }

  /// Nothing runs any more. A reader that has stopped reading must not keep us when somebody asks
  /// us to end.
  void flush() {
    while (!out_.is_empty() || !err().is_empty()) {
      wait();
      for (const int signal : signals_.take()) {
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return;
      }
      out_.write_some();
      err().write_some();
    }
  }

  /// Somebody who stops reading has seen enough; a full disk has not.
  void report_lost_output() {
    for (const Outlet* outlet : {&std::as_const(out_), &std::as_const(err())}) {
      if (outlet->error() == 0 || outlet->error() == EPIPE) continue;
      say(std::string("the ranks' output could not be written, part of it is lost; make room: ") +
          std::strerror(outlet->error()));
      flush();
      if (!exit_code_) exit_code_ = kInputOutput;
      return;
    }
  }

  const RunSettings& settings_;
  const std::vector<pid_t> strangers_ = own_children();  // of a shell that exec'ed us
  Signals signals_;
  Keeper keeper_;
  Outlet out_{STDOUT_FILENO};
  std::optional<Outlet> separate_err_;
  std::deque<Rank> ranks_;  // never moved: outputs are bound to their addresses
  std::optional<int> exit_code_;
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
  bool stopping_ = false;
  bool over_ = false;
};

/// A port that was free a moment ago, for other libraries of the ranks that want MASTER_PORT.
int find_free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    throw IoError(std::string("cannot find a free port on 127.0.0.1: ") + std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

}  // namespace

int launch(const RunSettings& settings) {
  Launcher launcher(settings);  // forks, and so comes before the server's thread
  RunIdentity identity;
  identity.run_id = rendezvous::to_hex(rendezvous::random_bytes(8));
  identity.secret = rendezvous::to_hex(rendezvous::random_bytes(32));
  rendezvous::StoreServer server({.port = settings.port, .secret = identity.secret});
  identity.store_port = server.port();
  identity.master_port = find_free_port();
  identity.terminal = ::isatty(STDERR_FILENO) == 1;
  return launcher.run(identity);
}

}  // namespace zero::cli
