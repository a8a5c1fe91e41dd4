#include "cli/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cli/numbers.h"
#include "cli/printable.h"

namespace zero::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr std::string_view kClearLine = "\r\033[K";
constexpr int kLargestBar = 30;
constexpr int kSmallestBar = 5;

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

int width_of_terminal() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void draw(std::string_view text) {
  // A terminal that has gone is no reason to stop.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), is_shown_(can_draw()) {}

ProgressBar::~ProgressBar() {
  if (on_screen_) draw(kClearLine);
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  if (!is_shown_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenDrawings;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const int width = width_of_terminal() - 1;  // in the last column some terminals wrap
  draw(std::string(kClearLine) + progress_line(label_, done, total, seconds, width));
  on_screen_ = true;
}

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total,
                          double seconds, int width) {
  const double part =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d%%", static_cast<int>(part * 100));
  const std::string front = label + " " + percent;
  std::string back = bytes_text(done) + " of " + bytes_text(total);
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    back += ", " + bytes_text(static_cast<std::uint64_t>(rate)) + "/s, " +
            duration_text((1 - part) * static_cast<double>(total) / rate) + " left";
  }
  const int room = width - columns_of(front) - columns_of(back) - 4;  // two spaces, two brackets
  if (room < kSmallestBar) return shortened(front + " " + back, std::max(width, 1));
  const auto cells = static_cast<std::size_t>(std::min(room, kLargestBar));
  const auto full = static_cast<std::size_t>(part * static_cast<double>(cells));
  return front + " [" + std::string(full, '=') + std::string(cells - full, ' ') + "] " + back;
}

}  // namespace zero::cli
