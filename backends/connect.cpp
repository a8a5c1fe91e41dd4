#include "backends/connect.h"

#include <algorithm>
#include <utility>

#include "backends/connect_gpu.h"
#include "backends/connect_settings.h"
#include "libzero/collective/plugin_search.h"
#include "backends/rendezvous/departures.h"
#include "backends/rendezvous/roll_call.h"
#include "backends/rendezvous/route.h"
#include "backends/rendezvous/served_store.h"
#include "backends/rendezvous/store_server.h"
#include "backends/shm/shm.h"
#include "libzero/base/error.h"
#include "libzero/collective/plugin.h"
#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

// How long rank 0 waits with the store for ranks that are not done with it when it leaves itself.
constexpr milliseconds kPatience = std::chrono::seconds(2);

constexpr const char* kStoreAddress = "address of the store";
constexpr const char* kPlan = "backends";

std::shared_ptr<KeyValueStore> join_store(const ConnectSettings& settings) {
  const Topology& topology = settings.topology;
  if (topology.size == 1) return make_memory_store();
  if (!topology.serves_store) {
    return rendezvous::connect_store(topology.store_host, topology.store_port, topology.secret,
                                     settings.timeout);
  }
  rendezvous::ServerOptions options;
  options.host = topology.local_size < topology.size ? "0.0.0.0" : topology.store_host;
  options.port = topology.store_port;
  options.secret = topology.secret;
  return rendezvous::serve_store(options, topology.store_host, settings.timeout,
                                 std::min(kPatience, settings.timeout));
}

/// How this rank reaches the store; told to the others where that is not this machine's own
/// business.
rendezvous::Route find_route(const Topology& topology, KeyValueStore& store) {
  if (topology.size == 1) return {"127.0.0.1", "127.0.0.1", true};
  const rendezvous::Route route = rendezvous::route_to(topology.store_host, topology.store_port);
  if (!route.is_loopback) store.compare_and_set(kStoreAddress, "", route.remote);
  return route;
}

/// Where to listen for the other ranks: the address by which the store is reached. On the store's
/// own machine that can be the loopback (a host's own name often resolves to it); then the address
/// that the other machines use for it. All ranks have found their route.
std::string own_address(const Topology& topology, const rendezvous::Route& route,
                        KeyValueStore& store) {
  if (!route.is_loopback || topology.local_size == topology.size) return route.local;
  try {
    return store.get(kStoreAddress, milliseconds(0));
  } catch (const CommError&) {
    throw CommError(
        "connect: on every machine the store's host is the loopback; set MASTER_ADDR to an address "
        "that all "
        "machines reach, or ZERO_INTERFACE: " +
        topology.store_host);
  }
}

/// Ranks that try different backends would wait for each other.
void agree_on_plan(const ConnectSettings& settings, KeyValueStore& store) {
  const std::string plan = settings.plan.text();
  const std::string agreed = store.compare_and_set(kPlan, "", plan);
  if (agreed.empty() || agreed == plan) return;
  throw ContractError(
      "connect: ranks were told to use different backends; set ZERO_BACKEND alike on all: rank " +
      std::to_string(settings.topology.rank) + " " + plan + ", another one " + agreed);
}

/// One rank's way into its communicator, once the ranks know of each other.
class Connection {
 public:
  Connection(const ConnectSettings& settings, std::shared_ptr<KeyValueStore> store,
             rendezvous::Route route, std::shared_ptr<const BackendPlugin> gloo)
      : settings_(settings),
        store_(std::move(store)),
        route_(std::move(route)),
        gloo_(std::move(gloo)) {}

  std::shared_ptr<Collective> make() {
    if (!settings_.plan.shm) return over_gloo();
    shm::Attempt attempt = shm::try_to_join(
        {settings_.topology.rank, settings_.topology.size, settings_.timeout, store_});
    if (attempt.collective) {
      how_ = "shm";
      return attempt.collective;
    }
    if (!settings_.plan.gloo) std::rethrow_exception(attempt.refusal->error);
    why_not_shm_ = attempt.refusal->text;
    return over_gloo();
  }

  /// For the log: "shm", "gloo on 127.0.0.1".
  const std::string& how() const { return how_; }
  /// Empty, or why auto could not have shared memory: the same on all ranks.
  const std::string& why_not_shm() const { return why_not_shm_; }

 private:
  std::shared_ptr<Collective> over_gloo() {
    if (!gloo_) gloo_ = find_gloo();
    PluginConfig config;
    config.backend = "gloo";
    config.rank = settings_.topology.rank;
    config.size = settings_.topology.size;
    config.timeout = settings_.timeout;
    config.store = store_;
    config.interface_or_host =
        settings_.interface ? *settings_.interface : own_address(settings_.topology, route_, *store_);
    how_ = "gloo on " + config.interface_or_host;
    return make_plugin_collective(gloo_, config);
  }

  std::shared_ptr<const BackendPlugin> find_gloo() const {
    try {
      return load_first_backend_plugin(plugin_candidates("gloo"));
    } catch (const Unavailable& error) {
      throw Unavailable(std::string(error.what()) + " (tried because " + why_not_shm_ + ")");
    }
  }

  const ConnectSettings& settings_;
  const std::shared_ptr<KeyValueStore> store_;
  const rendezvous::Route route_;
  std::shared_ptr<const BackendPlugin> gloo_;
  std::string how_;
  std::string why_not_shm_;
};

void report(const LogSink& log, const Topology& topology, const Connection& connection,
            bool on_gpu) {
  if (!log) return;
  std::string line = "connect: rank " + std::to_string(topology.rank) + " of " +
                     std::to_string(topology.size) + " by " + topology.launcher + ", backend " +
                     (on_gpu ? "nccl beside " : "") + connection.how() + ", store at " +
                     topology.store_host + ":" + std::to_string(topology.store_port);
  if (!connection.why_not_shm().empty()) line += "; " + connection.why_not_shm();
  log(LogLevel::kInfo, line);
}

}  // namespace

std::shared_ptr<Collective> connect(const ConnectOptions& options) {
  const ConnectSettings settings = resolve_settings(options);
  const Topology& topology = settings.topology;
  // First what needs no other rank: a missing library should not look like a network problem.
  std::optional<GpuLibraries> gpu;
  if (settings.plan.nccl) gpu.emplace(topology);
  if (settings.plan.self) {
    std::shared_ptr<Collective> alone = make_self();
    if (gpu) alone = gpu->join(std::move(alone), make_memory_store(), settings.timeout);
    if (options.log) {
      options.log(LogLevel::kInfo,
                  "connect: one rank alone, backend " + std::string(alone->backend()));
    }
    return record_calls(std::move(alone)).collective;
  }
  std::shared_ptr<const BackendPlugin> gloo;
  if (!settings.plan.shm) gloo = load_first_backend_plugin(plugin_candidates("gloo"));
  const auto own_store = with_prefix(
      join_store(settings), topology.run_id + "/" + std::to_string(topology.restart_count) + "/");
  const auto store = rendezvous::heeding_departures(own_store);
  rendezvous::Route route = find_route(topology, *store);
  rendezvous::call_roll(*store, topology.rank, topology.size, settings.timeout);
  agree_on_plan(settings, *store);
  Connection connection(settings, store, std::move(route), std::move(gloo));
  auto collective = connection.make();
  if (gpu) collective = gpu->join(std::move(collective), store, settings.timeout);
  rendezvous::take_back_farewell(*own_store);  // now the backend hears of deaths
  report(options.log, topology, connection, gpu.has_value());
  return record_calls(std::move(collective)).collective;
}

}  // namespace zero
