#pragma once

/// Hears that the machine is wanted back: SIGTERM, or SIGUSR1 as Slurm sends it ahead of time
/// (--signal=USR1@60).

#include <initializer_list>
#include <memory>

namespace zero {

/// While one lives, the signals only set a flag. One at a time in a process; construct it on the
/// main thread, before others start. Restores the handlers that it found.
class StopSignals {
 public:
  /// Default: SIGTERM and SIGUSR1. Throws ContractError if another one lives, or for a signal that
  /// cannot be handled.
  StopSignals();
  /// The same for these signals.
  explicit StopSignals(std::initializer_list<int> signals);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that came, 0 if none did. Any thread.
  int received() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
