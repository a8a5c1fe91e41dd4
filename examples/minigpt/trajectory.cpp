#include "examples/minigpt/trajectory.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

namespace minigpt {
namespace {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// The shortest text that means the same number.
std::string text_of_number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

NamedValues values_of(const Flags& flags) {
  return {{"--batch", std::to_string(flags.batch)},
          {"--micro-batch", std::to_string(flags.micro_batch)},
          {"--steps", std::to_string(flags.steps)},
          {"--threads", std::to_string(flags.threads)},
          {"--lr", text_of_number(flags.lr)},
          {"--min-lr", text_of_number(flags.min_lr)},
          {"--warmup", std::to_string(flags.warmup)},
          {"--schedule", flags.schedule},
          {"--weight-decay", text_of_number(flags.weight_decay)},
          {"--beta1", text_of_number(flags.beta1)},
          {"--beta2", text_of_number(flags.beta2)},
          {"--momentum", text_of_number(flags.momentum)},
          {"--clip", text_of_number(flags.clip)},
          {"--ema", text_of_number(flags.ema)},
          {"--autocast", flags.autocast},
          {"--wire", flags.wire},
          {"--dropout", text_of_number(flags.dropout)}};
}

/// A file may hold anything, and a terminal would obey.
bool is_plain(const std::string& text) {
  constexpr std::size_t kLongest = 40;
  return text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::vector<std::byte> remember_trajectory(const Flags& flags) {
  std::vector<std::byte> result;
  for (const auto& [name, value] : values_of(flags)) {
    for (const char c : name + " " + value + "\n") result.push_back(static_cast<std::byte>(c));
  }
  return result;
}

std::string changes_of_trajectory(const std::vector<std::byte>& remembered, const Flags& flags) {
  std::string text;
  std::transform(remembered.begin(), remembered.end(), std::back_inserter(text),
                 [](std::byte byte) { return static_cast<char>(byte); });
  std::istringstream lines(text);
  std::map<std::string, std::string> before;
  for (std::string name, value; lines >> name >> value;) before[name] = value;

  std::string changes;
  for (const auto& [name, value] : values_of(flags)) {
    const auto found = before.find(name);
    if (found == before.end() || found->second == value || !is_plain(found->second)) continue;
    changes += changes.empty() ? "" : ", ";
    changes += name;
    changes += " " + value;
    changes += " (was " + found->second + ")";
  }
  return changes;
}

}  // namespace minigpt
