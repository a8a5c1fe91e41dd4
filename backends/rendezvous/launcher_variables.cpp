#include "backends/rendezvous/launcher_variables.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "libzero/base/error.h"

namespace zero::rendezvous {
namespace {

void append(std::string& list, const char* separator, const std::string& item) {
  if (!list.empty()) list += separator;
  list += item;
}

}  // namespace

LauncherVariables::LauncherVariables(const Environment& environment, std::string launcher)
    : environment_(environment), launcher_(std::move(launcher)) {}

std::optional<std::string> LauncherVariables::find(const std::string& name) {
  auto value = environment_(name);
  if (value) append(seen_, " ", name + "=" + (name == "ZERO_SECRET" ? "(not shown)" : *value));
  return value;
}

std::optional<std::string> LauncherVariables::text_if_set(const std::string& name) {
  auto value = find(name);
  if (value && value->empty()) fail(name + " is empty");
  return value;
}

std::string LauncherVariables::text(const std::string& name) {
  const auto value = text_if_set(name);
  if (!value) missing(name);
  return value.value_or("");
}

int LauncherVariables::integer(const std::string& name, int least) {
  const std::string value = text(name);
  return value.empty() ? least : parse(name, value, least);
}

int LauncherVariables::integer_or(const std::string& name, int least, int fallback) {
  const auto value = find(name);
  return value ? parse(name, *value, least) : fallback;
}

int LauncherVariables::port_or_zero(const std::string& name) {
  const int value = integer_or(name, 1, 0);
  if (value > kMaxPort) fail(name + " is no port (1 to 65535): " + std::to_string(value));
  return value;
}

int LauncherVariables::parse(const std::string& name, std::string_view value, int least) const {
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

void LauncherVariables::missing(const std::string& what) {
  append(missing_, ", ", what);
}

void LauncherVariables::require_complete() const {
  if (!missing_.empty()) {
    fail("some variables are missing; set them or unset the others: " + missing_);
  }
}

void LauncherVariables::fail(const std::string& problem) const {
  throw ContractError("topology: the environment of " + launcher_ + " cannot be used: " + problem +
                      ". Seen: " + (seen_.empty() ? "nothing" : seen_));
}

void require_ranges(const LauncherVariables& variables, const Topology& topology) {
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

std::string secret_of(LauncherVariables& variables, const std::string& run_id) {
  return variables.text_if_set("ZERO_SECRET").value_or("libzero run " + run_id);
}

int store_port_of(LauncherVariables& variables) {
  const int port = variables.port_or_zero("ZERO_PORT");
  const int master = variables.port_or_zero("MASTER_PORT");
  if (port == 0 && master == kMaxPort) {
    variables.fail("MASTER_PORT leaves no port after it for the key-value store; set ZERO_PORT");
  }
  return port != 0 ? port : master == 0 ? 0 : master + 1;
}

}  // namespace zero::rendezvous
