#include "backends/rendezvous/topology.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "backends/rendezvous/launcher_variables.h"
#include "backends/rendezvous/slurm.h"

namespace zero {
namespace {

using rendezvous::kMaxPort;
using rendezvous::LauncherVariables;
using rendezvous::require_ranges;

/// torchrun's four names, or Open MPI's, which have a prefix.
Topology read_ranks(LauncherVariables& variables, const std::string& prefix) {
  Topology topology;
  topology.rank = variables.integer(prefix + "RANK", 0);
  topology.size = variables.integer(prefix + (prefix.empty() ? "WORLD_SIZE" : "SIZE"), 1);
  topology.local_rank = variables.integer(prefix + "LOCAL_RANK", 0);
  topology.local_size =
      variables.integer(prefix + (prefix.empty() ? "LOCAL_WORLD_SIZE" : "LOCAL_SIZE"), 1);
  return topology;
}

/// Where rank 0 serves the store: port and secret, and the checks at the end.
Topology with_own_store(LauncherVariables& variables, Topology topology,
                        const std::string& if_no_port) {
  topology.store_port = rendezvous::store_port_of(variables);
  if (topology.store_port == 0) variables.missing(if_no_port);
  topology.secret = rendezvous::secret_of(variables, topology.run_id);
  variables.require_complete();
  require_ranges(variables, topology);
  topology.serves_store = topology.rank == 0;
  return topology;
}

Topology from_zero_run(const Environment& environment) {
  LauncherVariables variables(environment, "zero run");
  Topology topology = read_ranks(variables, "");
  topology.launcher = "zero run";
  const std::string store = variables.text("ZERO_STORE");
  topology.secret = variables.text("ZERO_SECRET");
  topology.run_id = variables.text_if_set("TORCHELASTIC_RUN_ID").value_or("0");
  topology.restart_count = variables.integer_or("TORCHELASTIC_RESTART_COUNT", 0, 0);
  variables.require_complete();
  const std::size_t colon = store.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    variables.fail("ZERO_STORE is not host:port: '" + store + "'");
  }
  topology.store_host = store.substr(0, colon);
  topology.store_port = variables.parse("the port in ZERO_STORE", store.substr(colon + 1), 1);
  if (topology.store_port > kMaxPort) {
    variables.fail("the port in ZERO_STORE is no port (1 to 65535): " +
                   std::to_string(topology.store_port));
  }
  require_ranges(variables, topology);
  return topology;
}

Topology from_torchrun(const Environment& environment) {
  LauncherVariables variables(environment, "torchrun");
  Topology topology = read_ranks(variables, "");
  topology.launcher = "torchrun";
  topology.store_host = variables.text("MASTER_ADDR");
  topology.run_id = variables.text_if_set("TORCHELASTIC_RUN_ID").value_or("0");
  topology.restart_count = variables.integer_or("TORCHELASTIC_RESTART_COUNT", 0, 0);
  return with_own_store(variables, std::move(topology), "MASTER_PORT");
}

Topology from_open_mpi(const Environment& environment) {
  LauncherVariables variables(environment, "Open MPI");
  Topology topology = read_ranks(variables, "OMPI_COMM_WORLD_");
  topology.launcher = "Open MPI";
  topology.store_host = variables.text("MASTER_ADDR");
  topology.run_id = variables.text_if_set("PMIX_NAMESPACE").value_or("0");
  return with_own_store(variables, std::move(topology),
                        "MASTER_PORT or ZERO_PORT (mpirun -x NAME=VALUE)");
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Topology topology_from(const Environment& environment) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return environment(name).has_value(); });
  };
  if (any({"ZERO_STORE"})) return from_zero_run(environment);
  if (any({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}))
    return from_torchrun(environment);
  if (any({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
           "OMPI_COMM_WORLD_LOCAL_SIZE"})) {
    return from_open_mpi(environment);
  }
  // sbatch without srun sets SLURM_NTASKS, but starts one process.
  if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) {
    return rendezvous::topology_from_slurm(environment);
  }
  return Topology{};
}

}  // namespace zero
