#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/key_value_store.h"

namespace zero {
namespace {

void check_size(std::string_view what, std::string_view key, std::size_t size, std::size_t limit) {
  if (size <= limit) return;
  throw ContractError("key-value store: " + std::string(what) +
                      " is too long; shorten it or split it over several keys: key '" +
                      std::string(key.substr(0, 80)) + "', " + std::to_string(size) +
                      " bytes, at most " + std::to_string(limit));
}

void check_key(std::string_view key) {
  check_size("the key", key, key.size(), KeyValueStore::kMaxKeyBytes);
}

void check_value(std::string_view key, std::string_view value) {
  check_size("the value", key, value.size(), KeyValueStore::kMaxValueBytes);
}

std::int64_t parse_counter(std::string_view key, const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    throw ContractError(
        "key-value store: add() needs a counter, but set() wrote other text; use another key: key "
        "'" +
        std::string(key) + "', value of " + std::to_string(text.size()) + " bytes");
  }
  return value;
}

class MemoryStore final : public KeyValueStore {
 public:
  void set(std::string_view key, std::string_view value) override {
    check_key(key);
    check_value(key, value);
    {
      const std::lock_guard lock(mutex_);
      values_.insert_or_assign(std::string(key), std::string(value));
    }
    changed_.notify_all();
  }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    check_key(key);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::unique_lock lock(mutex_);
    auto found = values_.end();
    const bool there = changed_.wait_until(lock, deadline, [&] {
      found = values_.find(key);
      return found != values_.end();
    });
    if (there) return found->second;
    throw CommError(
        "key-value store in memory: nobody set the key in time; look for the rank that should "
        "have: key '" +
        std::string(key) + "', waited " + std::to_string(timeout.count()) + " ms");
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    check_key(key);
    std::int64_t sum = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = values_.find(key);
      const std::int64_t before = found == values_.end() ? 0 : parse_counter(key, found->second);
      if (__builtin_add_overflow(before, delta, &sum)) {
        throw ContractError("key-value store: the counter would leave the range of 64 bits: key '" +
                            std::string(key) + "', " + std::to_string(before) + " + " +
                            std::to_string(delta));
      }
      values_.insert_or_assign(std::string(key), std::to_string(sum));
    }
    changed_.notify_all();
    return sum;
  }

  std::string compare_and_set(std::string_view key, std::string_view expected,
                              std::string_view desired) override {
    check_key(key);
    check_value(key, desired);
    {
      const std::lock_guard lock(mutex_);
      const auto found = values_.find(key);
      const std::string_view present = found == values_.end() ? std::string_view() : found->second;
      if (present != expected) return std::string(present);
      values_.insert_or_assign(std::string(key), std::string(desired));
    }
    changed_.notify_all();
    return std::string(desired);
  }

  bool remove(std::string_view key) override {
    check_key(key);
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return false;
    values_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::shared_ptr<KeyValueStore> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace zero
