#include "backends/rendezvous/table.h"

#include <charconv>

#include "backends/rendezvous/wire.h"
#include "libzero/base/error.h"
#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {
namespace {

// Counters are decimal text, so that get() shows what people expect.
std::int64_t parse_counter(std::string_view key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ContractError("add: the value of this key is no counter: " + wire::shown_key(key));
  }
  return value;
}

}  // namespace

Table::Value Table::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

void Table::set(std::string_view key, std::string_view value) {
  ZERO_REQUIRE(key.size() <= KeyValueStore::kMaxKeyBytes,
               "key longer than " + std::to_string(KeyValueStore::kMaxKeyBytes) +
                   " bytes: " + wire::shown_key(key));
  ZERO_REQUIRE(value.size() <= KeyValueStore::kMaxValueBytes,
               "value longer than " + std::to_string(KeyValueStore::kMaxValueBytes) +
                   " bytes; split it over several keys: " + wire::shown_key(key) + " has " +
                   std::to_string(value.size()));
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : key.size() + found->second->size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  ZERO_REQUIRE(after <= max_bytes_,
               "the store is full (" + std::to_string(max_bytes_) +
                   " bytes); remove keys that nobody needs: " + wire::shown_key(key));
  auto fresh = std::make_shared<const std::string>(value);
  if (found == values_.end()) {
    values_.emplace(std::string(key), std::move(fresh));
  } else {
    found->second = std::move(fresh);
  }
  bytes_ = after;
}

std::int64_t Table::add(std::string_view key, std::int64_t delta) {
  const Value present = find(key);
  const std::int64_t before = present ? parse_counter(key, *present) : 0;
  std::int64_t sum = 0;
  ZERO_REQUIRE(!__builtin_add_overflow(before, delta, &sum),
               "add: the counter would leave the range of 64 bits: " + wire::shown_key(key));
  set(key, std::to_string(sum));
  return sum;
}

Table::Value Table::compare_and_set(std::string_view key, std::string_view expected,
                                    std::string_view desired) {
  const Value present = find(key);
  if ((present ? std::string_view(*present) : std::string_view()) != expected) {
    return present ? present : std::make_shared<const std::string>();
  }
  set(key, desired);
  return find(key);
}

bool Table::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= found->first.size() + found->second->size();
  values_.erase(found);
  return true;
}

}  // namespace zero::rendezvous
