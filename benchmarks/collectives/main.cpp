#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/connect.h"
#include "backends/rendezvous/served_store.h"
#include "benchmarks/collectives/turns.h"
#include "benchmarks/common/program.h"

namespace zero::benchmark::collectives {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargest = 25 << 20;

/// How much slower than `theirs` may `operation` be over `ours`?
struct Limit {
  const char* operation;
  const char* ours;
  const char* theirs;
  double most;
};
constexpr Limit kLimits[] = {
    {"reduce_scatter", "shm", "copies", 2.0},
    {"reduce_scatter", "shm", "gloo", 0.5},
    {"reduce_scatter", "shm", "ring", 0.6},
    {"reduce_scatter", "gloo", "ring", 0.6},
    {"reduce_scatter_and_all_gather", "shm", "ring", 1.0},
    {"reduce_scatter_and_all_gather", "gloo", "ring", 1.0},
    {"all_gather", "shm", "gloo", 0.5},
};

Json limit_of(const Race& race, const std::string& ours, const std::string& theirs) {
  if (race.bytes != kLargest) return nullptr;
  for (const Limit& limit : kLimits) {
    if (race.operation == limit.operation && ours == limit.ours && theirs == limit.theirs)
      return limit.most;
  }
  return nullptr;
}

std::string size_text(std::int64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + "KiB"
                         : std::to_string(bytes >> 20) + "MiB";
}

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

/// Contender `ours` of the race against contender `theirs`.
void report(const Race& race, const Times& times, int ranks, std::size_t ours, std::size_t theirs,
            Figures& figures) {
  const std::string& our_name = race.contenders[ours].name;
  const std::string& their_name = race.contenders[theirs].name;
  const double value = median_ratio(times[ours], times[theirs]);
  const Json limit = limit_of(race, our_name, their_name);
  figures.add({{"id", race.operation + "." + std::string(name_of(race.dtype)) + "." +
                          size_text(race.bytes) + "." + our_name + "_to_" + their_name + ".n" +
                          std::to_string(ranks)},
               {"what", "time over " + our_name + " / time of " + their_name},
               {"value", value},
               {"limit", limit},
               {"pass", limit.is_null() || value <= limit.get<double>()},
               {"rounds", times[ours].size()},
               {"median_ms", 1e3 * median(times[ours])},
               {"median_ms_theirs", 1e3 * median(times[theirs])},
               {"ratio_of_minima", least(times[ours]) / least(times[theirs])}});
}

/// Shared memory against everybody, and libzero's Gloo against Gloo's own ring.
void report(const Race& race, const Times& times, int ranks, Figures& figures) {
  for (std::size_t theirs = 1; theirs < race.contenders.size(); ++theirs) {
    report(race, times, ranks, 0, theirs, figures);
    if (race.contenders[theirs].name == "ring") report(race, times, ranks, 1, theirs, figures);
  }
}

std::shared_ptr<Collective> connect_over(const std::string& backend, Topology topology) {
  ConnectOptions options;
  options.backend = backend;
  topology.run_id += "/" + backend;
  options.topology = topology;
  return connect(options);
}

int run(int argc, char** argv) {
  CLI::App app{
      "Compares reductions and copies between ranks: over shared memory, over Gloo, Gloo's own "
      "ring "
      "all-reduce, and the memory copies alone.\n"
      "Example: zero run -n 2 -- collectives_benchmark --rounds 21 --output results.json"};
  std::string only;
  RunFlags flags{21, ""};
  std::vector<std::int64_t> kibibytes = {64, 1 << 10, kLargest >> 10};
  app.add_option("--kib", kibibytes, "sizes of the bucket")->capture_default_str();
  app.add_option(
      "--only", only,
      "one of reduce_scatter, all_gather, reduce_scatter_and_all_gather, all_reduce; default: all");
  flags.add_to(app);
  CLI11_PARSE(app, argc, argv);

  const Topology topology = topology_from(process_environment());
  if (topology.serves_store || topology.size < 2) {
    throw CLI::ValidationError("start it with zero run -n 2 (or more) -- collectives_benchmark");
  }
  const auto store = rendezvous::connect_store(topology.store_host, topology.store_port,
                                               topology.secret, std::chrono::seconds(60));
  Backends backends{connect_over("shm", topology), connect_over("gloo", topology),
                    std::make_shared<GlooRing>(topology.rank, topology.size, store)};
  Memory memory(*std::max_element(kibibytes.begin(), kibibytes.end()) << 10, topology.size);
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : kibibytes) sizes.push_back(size << 10);
  Figures figures;
  for (const Race& race : make_races(backends, memory, sizes)) {
    if (!only.empty() && race.operation != only) continue;
    report(race, run_rounds(race, *backends.shm, flags.rounds), topology.size, figures);
  }
  if (topology.rank == 0) figures.write(flags.output);
  backends.ring.reset();
  backends.gloo->shutdown();
  backends.shm->shutdown();
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::benchmark::collectives

int main(int argc, char** argv) {
  return zero::benchmark::run_program("collectives_benchmark", argc, argv,
                                      zero::benchmark::collectives::run);
}
