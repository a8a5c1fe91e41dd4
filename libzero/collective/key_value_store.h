#pragma once

/// What ranks need to find each other: a few keys that all of them can read and write.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace zero {

/// Any number of threads may use one store. Keys are at most kMaxKeyBytes long, values at most
/// kMaxValueBytes (a longer one is a ContractError). Failures of the connection are CommErrors that
/// name the store's address.
class KeyValueStore {
 public:
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxValueBytes = 1 << 20;

  virtual ~KeyValueStore() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;

  /// Waits until the key exists. Throws CommError naming the key when it does not appear in time.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;

  /// Adds to a counter (absent counts as 0) and returns the new value. Throws ContractError if the
  /// value is no counter.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;

  /// Writes `desired` if the value equals `expected` (absent equals ""), and returns the value that
  /// stands afterwards.
  virtual std::string compare_and_set(std::string_view key, std::string_view expected,
                                      std::string_view desired) = 0;

  /// True if the key existed.
  virtual bool remove(std::string_view key) = 0;

  /// What shall stand under `key`, unless something does, once this client's connection ends, in
  /// whatever way. One at a time: the next call replaces it, an empty key takes it back. A store
  /// inside one process ends with its clients and does nothing.
  virtual void leave_behind(std::string_view key, std::string_view value) {
    static_cast<void>(key), static_cast<void>(value);
  }
};

/// The same store under a prefix: "run 7, restart 1" cannot read what "run 7, restart 0" left
/// behind.
std::shared_ptr<KeyValueStore> with_prefix(std::shared_ptr<KeyValueStore> store,
                                           std::string prefix);

/// A store inside this process, for tests and for threads.
std::shared_ptr<KeyValueStore> make_memory_store();

}  // namespace zero
