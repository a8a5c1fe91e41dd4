#include "checkpoint/rule_name.h"

#include <span>

namespace zero::checkpoint {
namespace {

constexpr std::string_view kUnsaid = "AdamW";

}  // namespace

void put_rule(std::string_view rule, CommonState& common) {
  if (rule == kUnsaid) return;
  const auto bytes = std::as_bytes(std::span(rule));
  common.blobs[std::string(kRule)].assign(bytes.begin(), bytes.end());
}

std::string rule_of(const CommonState& common) {
  const auto found = common.blobs.find(std::string(kRule));
  if (found == common.blobs.end()) return std::string(kUnsaid);
  const std::string_view text(reinterpret_cast<const char*>(found->second.data()),
                              found->second.size());
  return is_key(text) ? std::string(text) : "unknown";
}

}  // namespace zero::checkpoint
