#include "cli/launcher.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/rendezvous/keyed_hash.h"
#include "backends/rendezvous/store_server.h"
#include "cli/attempt.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/keeper.h"
#include "cli/local_port.h"
#include "cli/rank_process.h"
#include "cli/restart_policy.h"
#include "cli/signals.h"

namespace zero::cli {
namespace {

class Run {
 public:
  explicit Run(const RunSettings& settings) : settings_(settings), ranks_(settings.ranks) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave behind comes here
  }

  int run() {
    TryEnd end;
    try {
      do {
        end = attempt_once();
      } while (goes_on_after(end));
    } catch (...) {
      console_.flush(signals_);  // what earlier tries wrote
      throw;
    }
    console_.flush(signals_);
    return report_lost_output() && end.code == kOk ? int{kInputOutput} : end.code;
  }

 private:
  TryEnd attempt_once() {
    TryIdentity identity;
    identity.ranks = ranks_;
    identity.restart_count = restarts_done_;
    identity.run_id = run_id_;
    identity.secret = rendezvous::to_hex(rendezvous::random_bytes(32));
    const rendezvous::StoreServer server({.port = settings_.port, .secret = identity.secret});
    identity.store_port = server.port();
    identity.master_port = find_free_port();
    identity.terminal = ::isatty(STDERR_FILENO) == 1;
    return attempt(context_, identity);
  }

  bool goes_on_after(TryEnd& end) {
    if (end.code == kOk || settings_.restarts == 0) return false;
    // While the last ranks were taken down nobody looked.
    const std::vector<int> arrived = signals_.take();
    if (std::any_of(arrived.begin(), arrived.end(), asks_to_end)) end.asked_to_end = true;
    const std::string reason = console_.is_broken()
                                   ? "no restart, since the output goes nowhere"
                                   : reason_to_stop(settings_, end, restarts_done_);
    if (!reason.empty()) {
      console_.say(end.failure + "; " + reason);
      return false;
    }
    ++restarts_done_;
    ranks_ = ranks_after(settings_, ranks_);
    console_.say(end.failure + "; restart " + std::to_string(restarts_done_) + " of " +
                 std::to_string(settings_.restarts) + " with " + std::to_string(ranks_) + " of " +
                 std::to_string(settings_.ranks) + " ranks");
    return true;
  }

  bool report_lost_output() {
    const int error = console_.loss();
    if (error == 0) return false;
    console_.say(std::string("the ranks' output could not be written, part of it is lost; make "
                             "room: ") +
                 std::strerror(error));
    console_.flush(signals_);
    return true;
  }

  const RunSettings& settings_;
  const std::vector<pid_t> strangers_ = own_children();  // of a shell that exec'ed us
  Signals signals_;
  Keeper keeper_;  // forks, and so comes before the first store's thread
  Console console_;
  RunContext context_{settings_, console_, signals_, keeper_, strangers_};
  const std::string run_id_ = rendezvous::to_hex(rendezvous::random_bytes(8));
  int ranks_;
  int restarts_done_ = 0;
};

}  // namespace

int launch(const RunSettings& settings) {
  return Run(settings).run();
}

}  // namespace zero::cli
