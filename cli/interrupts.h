#pragma once

/// Ctrl-C for commands that must stop in an orderly way.

#include <array>
#include <csignal>
#include <exception>

namespace zero::cli {

/// The command was stopped by a signal, in order: nothing is half-written.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  int signal() const noexcept { return signal_; }
  const char* what() const noexcept override { return "interrupted; nothing was left half-done"; }

 private:
  int signal_;
};

/// While one exists, SIGINT, SIGTERM and SIGHUP are only noted; the second of the same kind ends
/// the process at once. Those that were ignored before (nohup) stay ignored. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The signal that has come, or 0.
  int signal() const noexcept;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

}  // namespace zero::cli
