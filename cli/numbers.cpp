#include "cli/numbers.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <system_error>

namespace zero::cli {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {  // never "1024.0 KiB"
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return value;
  const std::size_t letter = std::string_view("kKmMgGtT").find(unit.front());
  if (letter == std::string_view::npos) return std::nullopt;
  unit.remove_prefix(1);
  if (!unit.empty() && unit != "iB") return std::nullopt;
  const auto shift = 10 * (letter / 2 + 1);
  if (value > ~std::uint64_t{0} >> shift) return std::nullopt;
  return value << shift;
}

std::string duration_text(double seconds) {
  if (!(seconds < 360000)) return "100 h or more";
  const auto whole = static_cast<long>(seconds + 0.5);
  char text[32];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string count_text(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace zero::cli
