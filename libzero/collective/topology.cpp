#include "libzero/collective/topology.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

// Slurm's derived ports lie below the range from which Linux hands out ports by itself (32768 and
// up).
constexpr std::int64_t kFirstSlurmPort = 15000;
constexpr std::int64_t kSlurmPorts = 15000;

/// One launcher's variables: remembers what was looked at, so that an error can list it.
class Variables {
 public:
  Variables(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  std::optional<std::string> find(const std::string& name) {
    auto value = environment_(name);
    if (value) seen_ += (seen_.empty() ? "" : " ") + name + "=" + shown(name, *value);
    return value;
  }

  /// Notes the name as missing where it is absent; check() then throws.
  std::string text(const std::string& name) {
    const auto value = find(name);
    if (!value) missing_ += (missing_.empty() ? "" : ", ") + name;
    if (value && value->empty()) fail(name + " is empty");
    return value.value_or("");
  }

  void missing(const std::string& what) { missing_ += (missing_.empty() ? "" : ", ") + what; }

  int integer(const std::string& name, int least) {
    const std::string value = text(name);
    return value.empty() ? least : parse(name, value, least);
  }

  int integer_or(const std::string& name, int least, int fallback) {
    const auto value = find(name);
    return value ? parse(name, *value, least) : fallback;
  }

  /// 0 where the variable is not set.
  int port(const std::string& name) {
    const int value = integer_or(name, 1, 0);
    if (value > 65535) fail(name + " is no port (1 to 65535): " + std::to_string(value));
    return value;
  }

  int parse(const std::string& name, std::string_view value, int least) const {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) {
      fail(name + " is not a whole number: '" + std::string(value) + "'");
    }
    if (number < least) {
      fail(name + " is less than " + std::to_string(least) + ": " + std::to_string(number));
    }
    return number;
  }

  void check() const {
    if (!missing_.empty()) {
      fail("some variables are missing; set them or unset the others: " + missing_);
    }
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw ContractError("topology: the environment of " + launcher_ + " cannot be used: " +
                        problem + ". Seen: " + (seen_.empty() ? "nothing" : seen_));
  }

 private:
  static std::string shown(const std::string& name, const std::string& value) {
    return name == "ZERO_SECRET" ? "(not shown)" : value;
  }

  const Environment& environment_;
  std::string launcher_;
  std::string seen_;
  std::string missing_;
};

void check_ranges(const Variables& variables, const Topology& topology) {
  const auto less = [&](const char* what, int value, const char* bound_name, int bound) {
    if (value >= bound) {
      variables.fail(std::string(what) + " must be below " + bound_name + ": " +
                     std::to_string(value) + " is not below " + std::to_string(bound));
    }
  };
  less("the rank", topology.rank, "the world size", topology.size);
  less("the local rank", topology.local_rank, "the local world size", topology.local_size);
  less("the local world size", topology.local_size, "the world size + 1", topology.size + 1);
}

/// Weak on purpose where nobody set ZERO_SECRET: it keeps runs apart, not attackers out.
std::string secret_of(Variables& variables, const std::string& run_id) {
  const auto secret = variables.find("ZERO_SECRET");
  if (secret && secret->empty()) variables.fail("ZERO_SECRET is empty");
  return secret.value_or("libzero run " + run_id);
}

/// ZERO_PORT, or the port after MASTER_PORT (on which the launcher's own store may listen already);
/// 0 if neither is set.
int store_port_of(Variables& variables) {
  const int port = variables.port("ZERO_PORT");
  const int master = variables.port("MASTER_PORT");
  if (port == 0 && master == 65535) {
    variables.fail("MASTER_PORT leaves no port after it for the key-value store; set ZERO_PORT");
  }
  return port != 0 ? port : master == 0 ? 0 : master + 1;
}

Topology from_zero_run(const Environment& environment) {
  Variables variables(environment, "zero run");
  Topology topology;
  topology.launcher = "zero run";
  topology.rank = variables.integer("RANK", 0);
  topology.size = variables.integer("WORLD_SIZE", 1);
  topology.local_rank = variables.integer("LOCAL_RANK", 0);
  topology.local_size = variables.integer("LOCAL_WORLD_SIZE", 1);
  const std::string store = variables.text("ZERO_STORE");
  topology.secret = variables.text("ZERO_SECRET");
  topology.run_id = variables.find("TORCHELASTIC_RUN_ID").value_or("0");
  topology.restart_count = variables.integer_or("TORCHELASTIC_RESTART_COUNT", 0, 0);
  variables.check();
  const std::size_t colon = store.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    variables.fail("ZERO_STORE is not host:port: '" + store + "'");
  }
  topology.store_host = store.substr(0, colon);
  topology.store_port = variables.parse("the port in ZERO_STORE", store.substr(colon + 1), 1);
  if (topology.store_port > 65535) {
    variables.fail("the port in ZERO_STORE is no port (1 to 65535): " +
                   std::to_string(topology.store_port));
  }
  check_ranges(variables, topology);
  return topology;
}

Topology from_torchrun(const Environment& environment) {
  Variables variables(environment, "torchrun");
  Topology topology;
  topology.launcher = "torchrun";
  topology.rank = variables.integer("RANK", 0);
  topology.size = variables.integer("WORLD_SIZE", 1);
  topology.local_rank = variables.integer("LOCAL_RANK", 0);
  topology.local_size = variables.integer("LOCAL_WORLD_SIZE", 1);
  topology.store_host = variables.text("MASTER_ADDR");
  topology.run_id = variables.find("TORCHELASTIC_RUN_ID").value_or("0");
  topology.restart_count = variables.integer_or("TORCHELASTIC_RESTART_COUNT", 0, 0);
  topology.store_port = store_port_of(variables);
  if (topology.store_port == 0) variables.missing("MASTER_PORT");
  topology.secret = secret_of(variables, topology.run_id);
  variables.check();
  check_ranges(variables, topology);
  topology.serves_store = topology.rank == 0;
  return topology;
}

Topology from_open_mpi(const Environment& environment) {
  Variables variables(environment, "Open MPI");
  Topology topology;
  topology.launcher = "Open MPI";
  topology.rank = variables.integer("OMPI_COMM_WORLD_RANK", 0);
  topology.size = variables.integer("OMPI_COMM_WORLD_SIZE", 1);
  topology.local_rank = variables.integer("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  topology.local_size = variables.integer("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  topology.store_host = variables.text("MASTER_ADDR");
  topology.run_id = variables.find("PMIX_NAMESPACE").value_or("0");
  topology.store_port = store_port_of(variables);
  if (topology.store_port == 0)
    variables.missing("MASTER_PORT or ZERO_PORT (mpirun -x NAME=VALUE)");
  topology.secret = secret_of(variables, topology.run_id);
  variables.check();
  check_ranges(variables, topology);
  topology.serves_store = topology.rank == 0;
  return topology;
}

/// "rack1n[03-07,9],other" -> "rack1n03".
std::string first_host(const Variables& variables, const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host.push_back(list[at++]);
      continue;
    }
    const std::size_t end = list.find_first_of(",-]", at);
    const std::size_t close = list.find(']', at);
    if (close == std::string::npos || end == at + 1) {
      variables.fail("the list of hosts makes no sense; set MASTER_ADDR: '" + list + "'");
    }
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  if (host.empty() || host.find(']') != std::string::npos) {
    variables.fail("the list of hosts makes no sense; set MASTER_ADDR: '" + list + "'");
  }
  return host;
}

struct NodeTasks {
  int tasks = 0;
  int nodes = 1;
};

/// "4(x2)" -> 4 tasks on each of 2 nodes.
NodeTasks parse_node_tasks(const Variables& variables, const std::string& entry) {
  const std::size_t open = entry.find("(x");
  NodeTasks parsed;
  parsed.tasks = variables.parse("the number of tasks per node", entry.substr(0, open), 1);
  if (open == std::string::npos) return parsed;
  if (entry.back() != ')') variables.fail("the number of tasks per node is cut: '" + entry + "'");
  const std::string nodes = entry.substr(open + 2, entry.size() - open - 3);
  parsed.nodes = variables.parse("the number of nodes with so many tasks", nodes, 1);
  return parsed;
}

/// "4(x2),3" -> tasks of node `node`: 4, 4, 3. A list with one entry holds for every node.
int tasks_of_node(const Variables& variables, const std::string& list, int node) {
  std::vector<NodeTasks> entries;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    entries.push_back(parse_node_tasks(variables, list.substr(at, end - at)));
    at = end + 1;
  }
  if (entries.size() == 1) return entries.front().tasks;
  std::int64_t nodes = 0;
  for (const NodeTasks& entry : entries) {
    nodes += entry.nodes;
    if (node < nodes) return entry.tasks;
  }
  variables.fail("SLURM_NODEID is beyond the list of tasks per node '" + list +
                 "': " + std::to_string(node));
}

int slurm_local_size(Variables& variables, int size) {
  for (const char* name :
       {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const auto list = variables.find(name);
    if (!list) continue;
    const int node = variables.integer_or("SLURM_NODEID", 0, 0);
    // The job's number stands in the environment of a smaller step, too.
    return std::min(tasks_of_node(variables, *list, node), size);
  }
  if (size > 1) variables.missing("SLURM_NTASKS_PER_NODE");
  return 1;
}

int slurm_port(std::int64_t job, std::int64_t step) {
  return static_cast<int>(kFirstSlurmPort + (job + 257 * step) % kSlurmPorts);
}

Topology from_slurm(const Environment& environment) {
  Variables variables(environment, "Slurm");
  Topology topology;
  topology.launcher = "Slurm";
  topology.rank = variables.integer("SLURM_PROCID", 0);
  topology.size = variables.integer("SLURM_NTASKS", 1);
  topology.local_rank = variables.integer("SLURM_LOCALID", 0);
  topology.local_size = slurm_local_size(variables, topology.size);
  const int job = variables.integer("SLURM_JOB_ID", 0);
  const int step = variables.integer("SLURM_STEP_ID", 0);
  topology.run_id = std::to_string(job) + "." + std::to_string(step);
  topology.restart_count = variables.integer_or("SLURM_RESTART_COUNT", 0, 0);
  topology.secret = secret_of(variables, topology.run_id);
  topology.store_port = store_port_of(variables);
  if (topology.store_port == 0) topology.store_port = slurm_port(job, step);
  const auto master = variables.find("MASTER_ADDR");
  if (master && master->empty()) variables.fail("MASTER_ADDR is empty");
  const std::string hosts = master ? "" : variables.text("SLURM_STEP_NODELIST");
  variables.check();
  topology.store_host = master ? *master : first_host(variables, hosts);
  check_ranges(variables, topology);
  topology.serves_store = topology.rank == 0;
  return topology;
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
  if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) return from_slurm(environment);
  return Topology{};
}

}  // namespace zero
