#pragma once

#include <memory>

#include "libzero/collective/key_value_store.h"
#include "libzero/collective/plugin_abi.h"

namespace zero {

/// Lends a KeyValueStore to a plug-in. table() is valid as long as the lender lives. Any thread.
class PluginStore {
 public:
  explicit PluginStore(std::shared_ptr<KeyValueStore> store);

  zero_store table() noexcept;

 private:
  static int set(void* self, const char* key, const char* value, int64_t value_length,
                 zero_message message);
  static int get(void* self, const char* key, char* value, int64_t value_size,
                 int64_t* value_length, int64_t timeout_ms, zero_message message);

  const std::shared_ptr<KeyValueStore> store_;
};

}  // namespace zero
