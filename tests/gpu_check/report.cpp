#include "tests/gpu_check/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace zero::gpu_check {
namespace {

constexpr std::string_view kVerdicts = "+-?";

std::string flat(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    if (c == '|') c = '/';  // lines become rows of a table
  }
  return text;
}

}  // namespace

std::string record_of(const Line& line) {
  return std::string(1, kVerdicts[static_cast<std::size_t>(line.verdict)]) + '\t' +
         flat(line.what) + '\t' + flat(line.measured) + '\t' + flat(line.demanded) + '\n';
}

std::optional<Line> line_of(std::string_view record) {
  if (record.ends_with('\n')) record.remove_suffix(1);
  std::vector<std::string> fields(1);
  for (const char c : record) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (fields.size() != 4 || fields[0].size() != 1) return std::nullopt;
  const std::size_t verdict = kVerdicts.find(fields[0][0]);
  if (verdict == kVerdicts.npos) return std::nullopt;
  return Line{fields[1], fields[2], fields[3], static_cast<Verdict>(verdict)};
}

std::string words_of(const std::exception& error) {
  constexpr std::size_t kMost = 400;
  const std::string text = error.what();
  return text.substr(0, std::min(text.find('\n'), kMost));
}

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

void Report::rate(const std::string& what, double bytes, double seconds,
                  std::optional<bool> right) {
  const std::string measured =
      bytes > 0 && seconds > 0 ? number(bytes / seconds * 1e-9, 1) + " GB/s" : "";
  if (!right) {
    note(what, measured);
  } else {
    judge(what,
          measured + (*right             ? ""
                      : measured.empty() ? "other bits"
                                         : ", other bits"),
          "the CPU's bits", *right);
  }
}

void Report::attempt(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    judge(what, words_of(error), "no error", false);
  }
}

}  // namespace zero::gpu_check
