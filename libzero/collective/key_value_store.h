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
/// name the store's address, and so is an answer that does not come within the timeout with which
/// the store was joined; a call that failed so may have been carried out. A store that is served to
/// other processes is bounded: what would make it too large is a ContractError.
class KeyValueStore {
 public:
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxValueBytes = 1 << 20;

  virtual ~KeyValueStore() = default;

  /// Writes `value`, any bytes, over whatever stands under the key.
  virtual void set(std::string_view key, std::string_view value) = 0;

  /// Waits until the key exists and returns its value. Throws CommError naming the key when it does
  /// not appear in time; a timeout of 0 only looks.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;

  /// Adds to a counter (absent counts as 0) and returns the new value; nothing comes between. A
  /// counter's value is decimal text. Throws ContractError if the value is no counter, or if the
  /// sum would leave 64 bits; it stays as it was then.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;

  /// Writes `desired` if the value equals `expected` (absent equals ""), and returns the value that
  /// stands afterwards ("" where there is none). Nothing comes between the look and the write.
  virtual std::string compare_and_set(std::string_view key, std::string_view expected,
                                      std::string_view desired) = 0;

  /// Removes the key and its value. True if the key existed.
  virtual bool remove(std::string_view key) = 0;

  /// What shall stand under `key`, unless something does, once this client's connection ends, in
  /// whatever way. One at a time: the next call replaces it, an empty key takes it back. A store
  /// inside one process ends with its clients and does nothing.
  virtual void leave_behind(std::string_view key, std::string_view value) {
    static_cast<void>(key), static_cast<void>(value);
  }
};

/// The same store under a prefix: "run 7, restart 1" cannot read what "run 7, restart 0" left
/// behind. The prefix counts to the length of each key. Throws ContractError for a null `store`.
std::shared_ptr<KeyValueStore> with_prefix(std::shared_ptr<KeyValueStore> store,
                                           std::string prefix);

/// A store inside this process, for tests and for threads. Throws no CommError but get()'s.
std::shared_ptr<KeyValueStore> make_memory_store();

}  // namespace zero
