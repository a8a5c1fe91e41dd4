#include "libzero/collective/plugin_store.h"

#include <algorithm>
#include <utility>

#include "libzero/collective/plugin_errors.h"

namespace zero {

PluginStore::PluginStore(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

zero_store PluginStore::table() noexcept {
  return {this, &PluginStore::set, &PluginStore::get};
}

int PluginStore::set(void* self, const char* key, const char* value, int64_t value_length,
                     zero_message message) {
  try {
    const std::string_view bytes(value, static_cast<std::size_t>(value_length));
    static_cast<PluginStore*>(self)->store_->set(key, bytes);
    return ZERO_OK;
  } catch (...) {
    return report_current_exception(message);
  }
}

int PluginStore::get(void* self, const char* key, char* value, int64_t value_size,
                     int64_t* value_length, int64_t timeout_ms, zero_message message) {
  try {
    const std::string found =
        static_cast<PluginStore*>(self)->store_->get(key, std::chrono::milliseconds(timeout_ms));
    *value_length = static_cast<int64_t>(found.size());
    std::copy_n(found.data(), std::min(value_size, *value_length), value);
    return ZERO_OK;
  } catch (...) {
    return report_current_exception(message);
  }
}

}  // namespace zero
