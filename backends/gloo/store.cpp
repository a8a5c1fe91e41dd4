#include "backends/gloo/store.h"

#include <array>

#include "libzero/base/error.h"

namespace zero::gloo_backend {

void Store::set(const std::string& key, const std::string& value) const {
  std::array<char, 1024> text{};
  const int code =
      callbacks_.set(callbacks_.self, (prefix_ + key).c_str(), value.data(),
                     static_cast<std::int64_t>(value.size()),
                     zero_message{text.data(), static_cast<std::int64_t>(text.size())});
  if (code != ZERO_OK) throw CommError(text.data());
}

std::string Store::get(const std::string& key, std::size_t max_bytes,
                       std::chrono::milliseconds timeout) const {
  std::array<char, 1024> text{};
  std::string value(max_bytes, '\0');
  std::int64_t length = 0;
  const int code =
      callbacks_.get(callbacks_.self, (prefix_ + key).c_str(), value.data(),
                     static_cast<std::int64_t>(value.size()), &length, timeout.count(),
                     zero_message{text.data(), static_cast<std::int64_t>(text.size())});
  if (code != ZERO_OK) throw CommError(text.data());
  if (length < 0 || static_cast<std::size_t>(length) > max_bytes) {
    throw CommError("the key-value store holds a value of unexpected size under " + prefix_ + key +
                    "; give every run its own run id");
  }
  value.resize(static_cast<std::size_t>(length));
  return value;
}

}  // namespace zero::gloo_backend
