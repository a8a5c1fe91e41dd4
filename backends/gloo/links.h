#pragma once

#include <gloo/transport/context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/gloo/device.h"

namespace zero::gloo_backend {

/// For Gloo's own waits: its timeouts close every connection before anyone can be told why, so they
/// never strike.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// One TCP connection to every other rank. Functions throw what Gloo throws (std::exception).
class Links {
 public:
  /// Starts listening. connect() then waits for each peer at most `timeout`.
  Links(Device& device, int rank, int size, std::chrono::milliseconds timeout);
  /// Closes in good order: what was sent still arrives. No lane may outlive it.
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Where `peer` has to connect to.
  std::string address_for(int peer) const;
  void connect(int peer, const std::string& address);

  gloo::transport::Context& context() { return *context_; }

  /// Ends all traffic at once; what was sent may be lost. Up to 10 ms a peer (a tick of Gloo's I/O
  /// thread).
  void close() noexcept;

 private:
  Device& device_;
  int rank_;
  int size_;
  std::shared_ptr<gloo::transport::Context> context_;
};

/// Posts the first receives of a new connection. Throws CommError naming the peer if it has left
/// already.
void first_receives(int peer, const std::function<void()>& post);

}  // namespace zero::gloo_backend
