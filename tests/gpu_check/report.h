#pragma once

/// What a part of the check finds: one line for each figure, with what is demanded of it.

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace zero::gpu_check {

enum class Verdict { kGood, kBad, kNotJudged };

struct Line {
  std::string what;
  std::string measured;
  std::string demanded;  ///< Empty: nothing.
  Verdict verdict = Verdict::kNotJudged;
};

/// One line of text, and back. Nothing for text that is none.
std::string record_of(const Line& line);
std::optional<Line> line_of(std::string_view record);

/// What an error says in a row: its beginning, if it is long.
std::string words_of(const std::exception& error);

/// "12.3", with `digits` behind the point.
std::string number(double value, int digits);

class Report {
 public:
  using Sink = std::function<void(const Line&)>;
  explicit Report(Sink sink) : sink_(std::move(sink)) {}

  void judge(const std::string& what, const std::string& measured, const std::string& demanded,
             bool is_good) {
    sink_({what, measured, demanded, is_good ? Verdict::kGood : Verdict::kBad});
  }
  void note(const std::string& what, const std::string& measured) {
    sink_({what, measured, "", Verdict::kNotJudged});
  }

  /// A rate (none where `bytes` is 0), and whether the numbers were the CPU's (empty: not
  /// compared).
  void rate(const std::string& what, double bytes, double seconds, std::optional<bool> right);

  /// What `body` throws becomes a bad line, and what follows goes on.
  void attempt(const std::string& what, const std::function<void()>& body);

 private:
  Sink sink_;
};

}  // namespace zero::gpu_check
