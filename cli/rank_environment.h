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
  std::vector<std::string> program;  ///< With its arguments.
};

/// What all ranks of a run share.
struct RunIdentity {
  std::string run_id;
  std::string secret;
  int store_port = 0;
  int master_port = 0;
  bool terminal = false;  ///< Ranks may draw progress bars.
};

using Variables = std::map<std::string, std::string>;

/// The caller's environment `base` with the rank's own variables on top.
Variables rank_environment(Variables base, const RunSettings& settings, const RunIdentity& identity,
                           int rank);

/// The environment of this process.
Variables current_environment();

}  // namespace zero::cli
