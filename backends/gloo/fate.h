#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace zero::gloo_backend {

/// Thrown inside this backend where a wait was called off: the reason is, or soon will be, in Fate.
struct Interrupted {};

/// The one failure path: death, silence and abort all end here. Keeps the first reason and calls
/// off every wait in flight. Any thread.
class Fate {
 public:
  /// While enrolled, a buffer's waits end (once) when things go wrong. Throws Interrupted if they
  /// already have.
  void enroll(gloo::transport::UnboundBuffer* buffer);
  /// Throws Interrupted if things have gone wrong.
  void require_calm() const;
  void dismiss(gloo::transport::UnboundBuffer* buffer);

  /// Records the reason and calls off all waits. False if an earlier reason stands.
  bool fail(const std::string& reason);

  /// Calls off all waits with no reason yet: the deadline passed, and the waiting thread itself
  /// knows for whom it waited.
  void interrupt();

  std::optional<std::string> reason() const;

  /// Waits for a reason from elsewhere, for at most `grace`.
  std::optional<std::string> await_reason(std::chrono::milliseconds grace) const;

 private:
  void call_off();

  mutable std::mutex mutex_;
  mutable std::condition_variable known_;
  std::set<gloo::transport::UnboundBuffer*> in_flight_;  // its order reaches nothing
  std::optional<std::string> reason_;
  bool interrupted_ = false;
};

}  // namespace zero::gloo_backend
