#pragma once

/// How far long work is, on a terminal.

#include <chrono>
#include <cstdint>
#include <string>

namespace zero::cli {

/// Draws one line on stderr, ten times a second at most; nothing where stderr is no terminal. The
/// destructor takes the line away.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string label_;
  const bool is_shown_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
  bool on_screen_ = false;
};

/// "verify  45% [====      ] 1.2 GiB of 2.6 GiB, 312.0 MiB/s, 0:04 left": at most `width` columns;
/// the bar goes first where that is too narrow.
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total,
                          double seconds, int width);

}  // namespace zero::cli
