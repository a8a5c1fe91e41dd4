#pragma once

/// The keys and values of one server. Not thread-safe: the server's thread owns it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace zero::rendezvous {

class Table {
 public:
  /// All keys and values together; a set beyond it is refused, so that a loop cannot eat the
  /// launcher's memory.
  static constexpr std::size_t kMaxTotalBytes = std::size_t{1} << 30;

  using Value = std::shared_ptr<const std::string>;

  explicit Table(std::size_t max_total_bytes = kMaxTotalBytes) : max_bytes_(max_total_bytes) {}

  /// nullptr if the key is absent.
  Value find(std::string_view key) const;

  /// Each throws ContractError, and changes nothing, if key or value is too long or the table is
  /// full.
  void set(std::string_view key, std::string_view value);
  std::int64_t add(std::string_view key,
                   std::int64_t delta);  ///< Also if the value is no counter or would overflow.
  Value compare_and_set(std::string_view key, std::string_view expected, std::string_view desired);
  bool remove(std::string_view key);

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
};

}  // namespace zero::rendezvous
