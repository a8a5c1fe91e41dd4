#include "backends/connect_settings.h"

#include <charconv>

#include "libzero/base/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultTimeout = std::chrono::seconds(300);
constexpr double kLongestTimeoutSeconds = 1e6;

milliseconds parse_timeout(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  ZERO_REQUIRE(
      whole && seconds >= 0.001 && seconds <= kLongestTimeoutSeconds,
      "connect: ZERO_TIMEOUT must be a number of seconds, from 0.001 to 1000000: '" + text + "'");
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

BackendPlan plan_for(const std::string& backend, const Topology& topology) {
  const bool one_host = topology.local_size == topology.size;
  if (backend == "auto") {
    if (topology.size == 1) return {.self = true};
    return {.shm = one_host, .gloo = true, .nccl_if_all_can = true};
  }
  if (backend == "self") {
    ZERO_REQUIRE(topology.size == 1,
                 "connect: the backend self is for one rank; use auto, shm or gloo: world size " +
                     std::to_string(topology.size));
    return {.self = true};
  }
  if (backend == "shm") {
    ZERO_REQUIRE(
        one_host,
        "connect: the backend shm is for ranks of one host; use auto or gloo: world size " +
            std::to_string(topology.size) + ", ranks on this host " +
            std::to_string(topology.local_size));
    return {.shm = true};
  }
  if (backend == "gloo") return {.gloo = true};
  if (backend == "nccl") {
    BackendPlan plan = plan_for("auto", topology);
    plan.nccl = true;
    plan.nccl_if_all_can = false;
    return plan;
  }
  throw ContractError(
      "connect: no such backend (ZERO_BACKEND, --backend); known are auto, self, shm and gloo, "
      "and nccl for GPUs: '" +
      backend + "'");
}

}  // namespace

std::string BackendPlan::text() const {
  std::string text = "gloo";
  if (shm) text = gloo ? "shm, else gloo" : "shm";
  if (self) text = "self";
  if (nccl) return "nccl beside " + text;
  return nccl_if_all_can ? text + ", nccl on GPUs" : text;
}

ConnectSettings resolve_settings(const ConnectOptions& options) {
  const Environment environment = process_environment();
  ConnectSettings settings;
  settings.topology = options.topology ? *options.topology : topology_from(environment);
  settings.plan =
      plan_for(options.backend ? *options.backend : environment("ZERO_BACKEND").value_or("auto"),
               settings.topology);
  const auto timeout = environment("ZERO_TIMEOUT");
  settings.timeout = options.timeout ? *options.timeout
                     : timeout       ? parse_timeout(*timeout)
                                     : kDefaultTimeout;
  ZERO_REQUIRE(settings.timeout > milliseconds(0), "connect: the timeout must be longer than 0 ms");
  settings.interface = options.interface ? options.interface : environment("ZERO_INTERFACE");
  settings.gpu = options.gpu;
  if (settings.interface && settings.interface->empty()) settings.interface.reset();
  return settings;
}

}  // namespace zero
