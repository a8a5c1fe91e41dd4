#pragma once

/// Serves a run's figures to Prometheus: http://127.0.0.1:PORT/metrics.

#include <cstdint>
#include <memory>
#include <string>

#include "libzero/observe/metrics.h"

namespace zero::observe {

struct MetricsServerOptions {
  std::string address = "127.0.0.1";  ///< Of an interface; 0.0.0.0 shows the figures to everybody.
  std::uint16_t port = 0;             ///< 0: any that is free.
  int rank = 0;
};

/// Answers on a thread of its own, which takes no signals, 16 clients at once at most, 5 seconds
/// each; others are turned away. No client can hold add() up.
class MetricsServer {
 public:
  /// Throws IoError if nothing can be served there, ContractError for an address that is none.
  explicit MetricsServer(const MetricsServerOptions& options);
  /// Breaks off what is being answered.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// The one that it listens at; never 0.
  std::uint16_t port() const noexcept;

  /// After a step. `times` may be null. Any thread.
  void add(const StepResult& result, double step_seconds, const StepTimes* times);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero::observe
