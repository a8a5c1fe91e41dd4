#pragma once

#include <string>

namespace zero::rendezvous {

/// The way from this machine to another: numeric addresses.
struct Route {
  std::string local;
  std::string remote;
  bool is_loopback =
      false;  ///< The other end is this machine, reached through the loopback interface.
};

/// Asks the kernel which of this machine's addresses it would use; sends nothing. Throws CommError
/// naming host and port.
Route route_to(const std::string& host, int port);

}  // namespace zero::rendezvous
