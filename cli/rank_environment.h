#pragma once

/// What `zero run` tells its ranks.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zero::cli {

struct RunSettings {
  int ranks = 0;
  int threads = 1;
  int port = 0;  ///< Of the key-value store; 0: any.
  std::optional<std::string> backend;
  std::optional<int> timeout_seconds;
  int grace_seconds = 30;        ///< For the ranks to end after SIGINT or SIGTERM to `zero run`.
  int restarts = 0;              ///< How many times the ranks are started again after a death.
  std::optional<int> min_ranks;  ///< Each restart has fewer ranks, but not fewer than these.
  std::optional<int> micro_batches;  ///< Of the global batch: a number of ranks must divide it.
  std::vector<std::string> program;  ///< With its arguments.
};

/// What all ranks of one try share. Only the run's id outlives a try.
struct TryIdentity {
  int ranks = 0;
  int restart_count = 0;  ///< 0 for the first try.
  std::string run_id;
  std::string secret;
  int store_port = 0;
  int master_port = 0;
  bool terminal = false;  ///< Ranks may draw progress bars.
};

using Variables = std::map<std::string, std::string>;

/// The caller's environment `base` with the rank's own variables on top.
Variables rank_environment(Variables base, const RunSettings& settings, const TryIdentity& identity,
                           int rank);

/// The environment of this process.
Variables current_environment();

}  // namespace zero::cli
