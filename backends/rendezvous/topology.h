#pragma once

/// Which rank this process is, among how many, and where ranks meet.

#include <functional>
#include <optional>
#include <string>

namespace zero {

/// One rank's place. Ranks count from 0; local ones are those of this rank's host.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;

  std::string store_host = "127.0.0.1";
  int store_port = 0;
  /// True if this process must serve the key-value store itself (rank 0 of torchrun, Slurm or Open
  /// MPI); false when a launcher serves it.
  bool serves_store = false;

  std::string run_id = "0";  ///< Separates the keys of runs that share a store.
  int restart_count = 0;     ///< Separates the keys of a run's restarts.
  std::string secret;        ///< Shared by the ranks; strangers without it are turned away.
  std::string launcher =
      "alone";  ///< "zero run", "torchrun", "Slurm", "Open MPI" or "alone": for messages.
};

/// Reads one environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process, as getenv() has it when the result is called: not while another
/// thread changes it.
Environment process_environment();

/// Resolves the topology from exactly one source, in this order: `zero run`, torchrun, Open MPI,
/// Slurm (only where SLURM_PROCID and SLURM_STEP_ID exist), nothing (alone). Asks nobody else and
/// opens nothing. Throws ContractError on a partial or contradictory set (a rank that is not below
/// the size, a port that is none), listing every variable that was seen (but never the secret) and
/// what is missing. A variable that is set but empty is refused, too.
///
/// Where rank 0 serves the store: its port is ZERO_PORT, else MASTER_PORT + 1 (the launcher itself
/// may listen on MASTER_PORT), else, under Slurm, 15000 + (SLURM_JOB_ID + 257 * SLURM_STEP_ID) mod
/// 15000. Its host is MASTER_ADDR, else, under Slurm, the first host of SLURM_STEP_NODELIST. The
/// secret is ZERO_SECRET, else it is derived from the run's id, which anybody who can list jobs may
/// know: that keeps runs from mixing, not attackers out.
Topology topology_from(const Environment& environment);

}  // namespace zero
