#include "backends/rendezvous/slurm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/rendezvous/launcher_variables.h"

namespace zero::rendezvous {
namespace {

// Derived ports lie below the range from which Linux hands out ports by itself (32768 and up).
constexpr std::int64_t kFirstPort = 15000;
constexpr std::int64_t kPorts = 15000;

/// "rack1n[03-07,9],other" -> "rack1n03".
std::string first_host(const LauncherVariables& variables, const std::string& list) {
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
NodeTasks parse_node_tasks(const LauncherVariables& variables, const std::string& entry) {
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
int tasks_of_node(const LauncherVariables& variables, const std::string& list, int node) {
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

int local_size_of(LauncherVariables& variables, int size) {
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

int derived_port(std::int64_t job, std::int64_t step) {
  return static_cast<int>(kFirstPort + (job + 257 * step) % kPorts);
}

}  // namespace

Topology topology_from_slurm(const Environment& environment) {
  LauncherVariables variables(environment, "Slurm");
  Topology topology;
  topology.launcher = "Slurm";
  topology.rank = variables.integer("SLURM_PROCID", 0);
  topology.size = variables.integer("SLURM_NTASKS", 1);
  topology.local_rank = variables.integer("SLURM_LOCALID", 0);
  topology.local_size = local_size_of(variables, topology.size);
  const int job = variables.integer("SLURM_JOB_ID", 0);
  const int step = variables.integer("SLURM_STEP_ID", 0);
  topology.run_id = std::to_string(job) + "." + std::to_string(step);
  topology.restart_count = variables.integer_or("SLURM_RESTART_COUNT", 0, 0);
  topology.secret = secret_of(variables, topology.run_id);
  topology.store_port = store_port_of(variables);
  if (topology.store_port == 0) topology.store_port = derived_port(job, step);
  const auto master = variables.text_if_set("MASTER_ADDR");
  const std::string hosts = master ? "" : variables.text("SLURM_STEP_NODELIST");
  variables.require_complete();
  topology.store_host = master ? *master : first_host(variables, hosts);
  require_ranges(variables, topology);
  topology.serves_store = topology.rank == 0;
  return topology;
}

}  // namespace zero::rendezvous
