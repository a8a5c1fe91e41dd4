#include "backends/rendezvous/departures.h"

#include <algorithm>
#include <utility>

#include "backends/rendezvous/wire.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kFarewell = "farewell";
constexpr milliseconds kGlance{200};  // between looks for a farewell

class HeedfulStore final : public KeyValueStore {
 public:
  explicit HeedfulStore(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

  std::string get(std::string_view key, milliseconds timeout) override {
    if (timeout <= kGlance) return store_->get(key, timeout);
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      if (left <= milliseconds(0)) break;
      try {
        return store_->get(key, std::min(left, kGlance));
      } catch (const CommError&) {
        // Not there yet, or the store is lost: then the next line says so.
      }
      const std::string departure = first_departure(*store_);
      if (!departure.empty()) throw CommError(departure);
    }
    throw CommError("nobody has set this key within " + std::to_string(timeout.count()) +
                    " ms; look for the rank that should have: " + wire::shown_key(key));
  }

  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return store_->add(key, delta);
  }
  std::string compare_and_set(std::string_view key, std::string_view expected,
                              std::string_view desired) override {
    return store_->compare_and_set(key, expected, desired);
  }
  bool remove(std::string_view key) override { return store_->remove(key); }
  void leave_behind(std::string_view key, std::string_view value) override {
    store_->leave_behind(key, value);
  }

 private:
  const std::shared_ptr<KeyValueStore> store_;
};

}  // namespace

void prepare_farewell(KeyValueStore& store, const std::string& who) {
  store.leave_behind(kFarewell, who);
}

void take_back_farewell(KeyValueStore& store) {
  store.leave_behind("", "");
}

std::string first_departure(KeyValueStore& store) {
  // Reads without waiting; unlike get() it tells an absent key from a lost store.
  const std::string who = store.compare_and_set(kFarewell, "", "");
  return who.empty() ? "" : who + " left before all ranks had met; look at what is printed there";
}

std::shared_ptr<KeyValueStore> heeding_departures(std::shared_ptr<KeyValueStore> store) {
  return std::make_shared<HeedfulStore>(std::move(store));
}

}  // namespace zero::rendezvous
