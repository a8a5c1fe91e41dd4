#include "cli/world_list.h"

#include <charconv>
#include <system_error>

#include "checkpoint/training_state.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;

template <class Number>
std::optional<Number> whole(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || text.front() == '-' || error != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

std::optional<int> ranks(std::string_view text) {
  const auto value = whole<int>(text);
  return value && *value >= 1 && *value <= checkpoint::kMaxWorldSize ? value : std::nullopt;
}

std::optional<std::vector<int>> doubling(std::string_view from, std::string_view to) {
  const auto first = ranks(from), last = ranks(to);
  if (!first || !last || *first > *last) return std::nullopt;
  std::vector<int> worlds;
  for (int world = *first; world < *last; world *= 2) worlds.push_back(world);
  worlds.push_back(*last);
  return worlds;
}

}  // namespace

std::optional<std::vector<int>> parse_worlds(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots != std::string_view::npos) return doubling(text.substr(0, dots), text.substr(dots + 2));
  std::vector<int> worlds;
  for (;;) {
    const std::size_t comma = text.find(',');
    const auto world = ranks(text.substr(0, comma));
    if (!world) return std::nullopt;
    worlds.push_back(*world);
    if (comma == std::string_view::npos) return worlds;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kUnits = "kKmMbBtT";
  std::int64_t unit = 1;
  if (const std::size_t letter = kUnits.find(text.back()); letter != std::string_view::npos) {
    for (std::size_t i = 0; i <= letter / 2; ++i) unit *= 1000;
    text.remove_suffix(1);
  }
  const std::size_t point = text.find('.');
  const auto integer = whole<std::int64_t>(text.substr(0, point));
  if (!integer || *integer > kMostParameters / unit) return std::nullopt;
  std::int64_t count = *integer * unit;
  if (point != std::string_view::npos) {
    const std::string_view digits = text.substr(point + 1);
    const auto decimals = whole<std::int64_t>(digits);
    if (!decimals || digits.size() > 3) return std::nullopt;
    std::int64_t divisor = 1;
    for (std::size_t i = 0; i < digits.size(); ++i) divisor *= 10;
    if (*decimals * unit % divisor != 0) return std::nullopt;
    count += *decimals * unit / divisor;
  }
  return count > 0 && count <= kMostParameters ? std::optional(count) : std::nullopt;
}

}  // namespace zero::cli
