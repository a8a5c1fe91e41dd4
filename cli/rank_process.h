#pragma once

/// One rank as a child process in a process group of its own.

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/rank_environment.h"
#include "cli/unique_fd.h"

namespace zero::cli {

struct RankProcess {
  pid_t pid = -1;  ///< Also its process group.
  UniqueFd out;    ///< Non-blocking reading ends.
  UniqueFd err;
  int start_error = 0;  ///< errno of exec; 0 if the program runs.
};

/// Starts `program` (looked up in PATH) with stdin from /dev/null. It dies with the launcher.
/// Throws IoError if the system has no process or pipe to give.
RankProcess start_rank(const std::vector<std::string>& program, const Variables& environment);

/// How a process ended, as waitid() reports it.
struct ExitReport {
  bool ended = false;
  int code = 0;    ///< The exit code, or 128 + signal.
  int signal = 0;  ///< 0 if it exited.
};

/// Does not reap: the pid, and so the process group, stays taken until reap().
ExitReport look_at(pid_t pid);
void reap(pid_t pid);

/// "exited with code 3", "was killed by SIGKILL"
std::string describe(const ExitReport& report);

/// Who died first is not known: the system does not tell, and a process that is killed closes its
/// connections before its end shows. 0: nothing that another rank's end leads to. More: the more
/// likely the consequence of one (a rank that lost a peer exits with kInputOutput, or aborts where
/// it does not catch the error).
int distance_from_cause(const ExitReport& report) noexcept;

/// The children of this process, also those that it adopted.
std::vector<pid_t> own_children();

/// Kills and reaps this process's children other than `spare`, and what they leave behind, until
/// none is left.
void kill_orphans(const std::vector<pid_t>& spare);

}  // namespace zero::cli
