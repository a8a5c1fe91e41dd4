#include "backends/connect.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <vector>

#include "backends/rendezvous/departures.h"
#include "backends/rendezvous/roll_call.h"
#include "backends/rendezvous/route.h"
#include "backends/rendezvous/served_store.h"
#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"
#include "libzero/collective/plugin.h"
#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultTimeout = std::chrono::seconds(300);
constexpr double kLongestTimeoutSeconds = 1e6;
// How long rank 0 waits with the store for ranks that are not done with it when it leaves itself.
constexpr milliseconds kPatience = std::chrono::seconds(2);
constexpr std::array<std::string_view, 3> kBackends = {"auto", "self", "gloo"};

milliseconds parse_timeout(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  ZERO_REQUIRE(
      whole && seconds >= 0.001 && seconds <= kLongestTimeoutSeconds,
      "connect: ZERO_TIMEOUT must be a number of seconds, from 0.001 to 1000000: '" + text + "'");
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

struct Settings {
  Topology topology;
  std::string backend;
  milliseconds timeout;
  std::optional<std::string> interface;
};

Settings resolve(const ConnectOptions& options) {
  const Environment environment = process_environment();
  Settings settings;
  settings.topology = options.topology ? *options.topology : topology_from(environment);
  settings.backend =
      options.backend ? *options.backend : environment("ZERO_BACKEND").value_or("auto");
  if (std::find(kBackends.begin(), kBackends.end(), settings.backend) == kBackends.end()) {
    throw ContractError(
        "connect: no such backend (ZERO_BACKEND, --backend); known are auto, self and gloo: '" +
        settings.backend + "'");
  }
  const auto timeout = environment("ZERO_TIMEOUT");
  settings.timeout = options.timeout ? *options.timeout
                     : timeout       ? parse_timeout(*timeout)
                                     : kDefaultTimeout;
  ZERO_REQUIRE(settings.timeout > milliseconds(0), "connect: the timeout must be longer than 0 ms");
  settings.interface = options.interface ? options.interface : environment("ZERO_INTERFACE");
  if (settings.interface && settings.interface->empty()) settings.interface.reset();
  if (settings.backend == "auto") settings.backend = settings.topology.size == 1 ? "self" : "gloo";
  ZERO_REQUIRE(settings.backend != "self" || settings.topology.size == 1,
               "connect: the backend self is for one rank; use auto or gloo: world size " +
                   std::to_string(settings.topology.size));
  return settings;
}

std::shared_ptr<KeyValueStore> join_store(const Settings& settings) {
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

constexpr const char* kStoreAddress = "address of the store";

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

std::vector<std::string> plugin_candidates(const std::string& backend) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  const std::string path = process_environment()("ZERO_PLUGIN_PATH").value_or("");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib");
  }
  folders.emplace_back(ZERO_INSTALL_LIBDIR);
  folders.emplace_back(ZERO_BUILD_LIBDIR);
  std::vector<std::string> candidates;
  for (const fs::path& folder : folders) {
    candidates.push_back((folder / ("libzero_" + backend + ".so")).string());
  }
  return candidates;
}

}  // namespace

std::shared_ptr<Collective> connect(const ConnectOptions& options) {
  const Settings settings = resolve(options);
  const Topology& topology = settings.topology;
  if (settings.backend == "self") {
    if (options.log) options.log(LogLevel::kInfo, "connect: one rank alone, backend self");
    return record_calls(make_self()).collective;
  }
  // First what needs no other rank: a missing plug-in should not look like a network problem.
  const auto plugin = load_first_backend_plugin(plugin_candidates(settings.backend));
  PluginConfig config;
  config.backend = settings.backend;
  config.rank = topology.rank;
  config.size = topology.size;
  config.timeout = settings.timeout;
  const auto own_store = with_prefix(
      join_store(settings), topology.run_id + "/" + std::to_string(topology.restart_count) + "/");
  config.store = rendezvous::heeding_departures(own_store);
  const rendezvous::Route route = find_route(topology, *config.store);
  rendezvous::call_roll(*config.store, topology.rank, topology.size, settings.timeout);
  config.interface_or_host =
      settings.interface ? *settings.interface : own_address(topology, route, *config.store);
  auto collective = make_plugin_collective(plugin, config);
  rendezvous::take_back_farewell(*own_store);  // now the backend hears of deaths
  if (options.log) {
    options.log(LogLevel::kInfo,
                "connect: rank " + std::to_string(topology.rank) + " of " +
                    std::to_string(topology.size) + " by " + topology.launcher + ", backend " +
                    settings.backend + " on " + config.interface_or_host + ", store at " +
                    topology.store_host + ":" + std::to_string(topology.store_port));
  }
  return record_calls(std::move(collective)).collective;
}

}  // namespace zero
