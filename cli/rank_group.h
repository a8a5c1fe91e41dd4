#pragma once

/// The processes of one try: started, heard, signalled and taken down together.

#include <poll.h>

#include <deque>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/keeper.h"
#include "cli/rank_environment.h"
#include "cli/rank_output.h"
#include "cli/rank_process.h"

namespace zero::cli {

struct EndedRank {
  int number = 0;
  ExitReport report;
};

/// Not thread-safe. Nothing of it is left when it is destroyed.
class RankGroup {
 public:
  /// `strangers`: children of this process that are not the run's and are left alone. All must
  /// outlive the group.
  RankGroup(Console& console, Keeper& keeper, const std::vector<pid_t>& strangers);
  ~RankGroup() { take_down(); }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Starts all ranks. Returns 0, or the errno for which the first of them could not execute the
  /// program; those before it run then. Throws IoError if the system has no process to give.
  int start(const RunSettings& settings, const TryIdentity& identity);

  std::size_t size() const noexcept { return ranks_.size(); }
  bool all_ended() const;

  /// Adds what to poll for to read on.
  void add_to(std::vector<pollfd>& fds);
  void read_some();
  /// The ranks that have ended since the last call, all their output read. Those whose end is
  /// rather the cause of other ranks' ends than the consequence come first.
  std::vector<EndedRank> take_ended();

  void signal_leaders(int signal);
  /// Also what ranks have started.
  void signal_all(int signal);
  /// Kills and reaps all, orphans too, and reads the rest of their output.
  void take_down();

 private:
  struct Rank;

  void collect_ended(std::vector<EndedRank>& ended);

  Console& console_;
  Keeper& keeper_;
  const std::vector<pid_t>& strangers_;
  std::deque<Rank> ranks_;  // never moved: outputs are bound to their addresses
  bool down_ = false;
};

/// Bound to its address by the splitters of its outputs.
struct RankGroup::Rank {
  Rank(int number_, RankProcess& process, Console& console)
      : number(number_),
        pid(process.pid),
        out(std::move(process.out), rank_prefix(number_, console.out()), console.out()),
        err(std::move(process.err), rank_prefix(number_, console.err()), console.err()) {}

  int number;
  pid_t pid;
  bool ended = false;
  RankOutput out;
  RankOutput err;
};

}  // namespace zero::cli
