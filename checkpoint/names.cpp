#include "checkpoint/names.h"

#include <algorithm>
#include <random>

namespace zero::checkpoint {
namespace {

constexpr std::string_view kStep = "step_";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kDoomed = ".del-";
constexpr std::string_view kExport = ".zero-export-";
constexpr std::size_t kStepDigits = 12;
constexpr std::size_t kStepNameSize = kStep.size() + kStepDigits;

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::string padded(std::int64_t value, std::size_t width) {
  const std::string digits = std::to_string(value);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

/// Removes five or more digits from the front; the first may be 0 only if there are five.
bool skip_five_digits(std::string_view& text) noexcept {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  if (count < 5 || count > 6 || (count > 5 && text[0] == '0')) return false;
  text.remove_prefix(count);
  return true;
}

bool skip(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_shard_name(std::string_view name) noexcept {
  return skip(name, "shard-") && skip_five_digits(name) && skip(name, "-of-") &&
         skip_five_digits(name) && name == ".h5";
}

}  // namespace

std::string step_name(std::int64_t step) {
  return std::string(kStep) + padded(step, kStepDigits);
}

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  if (name.size() != kStepNameSize || !skip(name, kStep)) return std::nullopt;
  if (!std::all_of(name.begin(), name.end(), is_digit)) return std::nullopt;
  return std::stoll(std::string(name));
}

std::string temporary_name(std::int64_t step, std::string_view attempt) {
  return std::string(kTemporary) + step_name(step) + "-" + std::string(attempt);
}

std::string doomed_name(std::int64_t step, std::string_view attempt) {
  return std::string(kDoomed) + step_name(step) + "-" + std::string(attempt);
}

bool is_leftover_name(std::string_view name) {
  if (!skip(name, kTemporary) && !skip(name, kDoomed)) return false;
  if (name.size() != kStepNameSize + 1 + 16 || name[kStepNameSize] != '-') return false;
  return parse_step_name(name.substr(0, kStepNameSize)).has_value() &&
         is_attempt(name.substr(kStepNameSize + 1));
}

std::string export_temporary_name(std::string_view attempt) {
  return std::string(kExport) + std::string(attempt);
}

bool is_export_temporary_name(std::string_view name) {
  return skip(name, kExport) && is_attempt(name);
}

bool is_attempt(std::string_view text) noexcept {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::string random_attempt() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;
  std::string text;
  while (text.size() < 16) text += kDigits[source() & 15u];
  return text;
}

std::string shard_name(int rank, int world_size) {
  return "shard-" + five_digits(rank) + "-of-" + five_digits(world_size) + ".h5";
}

bool is_checkpoint_file_name(std::string_view name) {
  return name == kManifestName || name == kCommonName || name == kViewName || is_shard_name(name);
}

std::string five_digits(int value) {
  return padded(value, 5);
}

}  // namespace zero::checkpoint
