#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/key_value_store.h"

namespace zero {
namespace {

class PrefixStore final : public KeyValueStore {
 public:
  PrefixStore(std::shared_ptr<KeyValueStore> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(full(key), value); }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return store_->get(full(key), timeout);
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return store_->add(full(key), delta);
  }

  std::string compare_and_set(std::string_view key, std::string_view expected,
                              std::string_view desired) override {
    return store_->compare_and_set(full(key), expected, desired);
  }

  bool remove(std::string_view key) override { return store_->remove(full(key)); }

  void leave_behind(std::string_view key, std::string_view value) override {
    store_->leave_behind(key.empty() ? "" : full(key), value);
  }

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  const std::shared_ptr<KeyValueStore> store_;
  const std::string prefix_;
};

}  // namespace

std::shared_ptr<KeyValueStore> with_prefix(std::shared_ptr<KeyValueStore> store,
                                           std::string prefix) {
  ZERO_REQUIRE(store != nullptr,
               "with_prefix: the store must not be null: prefix '" + prefix + "'");
  return std::make_shared<PrefixStore>(std::move(store), std::move(prefix));
}

}  // namespace zero
