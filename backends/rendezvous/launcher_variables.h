#pragma once

/// Reading a launcher's environment: every refusal lists what was seen and what is missing.

#include <optional>
#include <string>
#include <string_view>

#include "backends/rendezvous/topology.h"

namespace zero::rendezvous {

/// One launcher's variables. Remembers what was looked at (but never shows the secret). Whatever
/// cannot be used throws ContractError. Not thread-safe.
class LauncherVariables {
 public:
  /// `launcher` begins the messages. `environment` must outlive this.
  LauncherVariables(const Environment& environment, std::string launcher);

  std::optional<std::string> find(const std::string& name);

  /// Of a variable that must be there: where it is absent its name is noted and require_complete()
  /// throws.
  std::string text(const std::string& name);
  int integer(const std::string& name, int least);

  /// Of a variable that may be absent, but not empty.
  std::optional<std::string> text_if_set(const std::string& name);
  int integer_or(const std::string& name, int least, int fallback);
  int port_or_zero(const std::string& name);

  int parse(const std::string& name, std::string_view value, int least) const;

  /// Notes that something is missing that is no single variable.
  void missing(const std::string& what);
  void require_complete() const;
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  const Environment& environment_;
  std::string launcher_;
  std::string seen_;
  std::string missing_;
};

/// The largest TCP port.
inline constexpr int kMaxPort = 65535;

/// Ranks below their sizes, and the local world inside the world.
void require_ranges(const LauncherVariables& variables, const Topology& topology);

/// ZERO_SECRET, or one that keeps runs apart, not attackers out.
std::string secret_of(LauncherVariables& variables, const std::string& run_id);

/// ZERO_PORT, or the port after MASTER_PORT (on which the launcher's own store may listen already);
/// 0 if neither is set.
int store_port_of(LauncherVariables& variables);

}  // namespace zero::rendezvous
