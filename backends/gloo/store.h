#pragma once

#include <chrono>
#include <string>

#include "libzero/collective/plugin_abi.h"

namespace zero::gloo_backend {

/// The program's key-value store under a prefix. Copies share the program's store.
class Store {
 public:
  Store(zero_store callbacks, std::string prefix)
      : callbacks_(callbacks), prefix_(std::move(prefix)) {}

  Store child(const std::string& prefix) const { return Store(callbacks_, prefix_ + prefix + "/"); }

  /// Throws CommError with the store's own words.
  void set(const std::string& key, const std::string& value) const;

  /// Waits until the key exists, at most `timeout`; throws CommError if it does not come, or if it
  /// is longer than `max_bytes`.
  std::string get(const std::string& key, std::size_t max_bytes,
                  std::chrono::milliseconds timeout) const;

 private:
  zero_store callbacks_;
  std::string prefix_;
};

}  // namespace zero::gloo_backend
