#include "cli/outlet.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace zero::cli {
namespace {

constexpr std::string_view kClearLine = "\r\033[K";

}  // namespace

Outlet::Outlet(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1) {
  struct stat status {};
  is_file_ = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

void Outlet::clear_progress() {
  if (progress_on_screen_) queue_ += kClearLine;
  progress_on_screen_ = false;
}

void Outlet::line(std::string_view prefix, std::string_view text) {
  if (is_broken()) return;
  clear_progress();
  queue_.append(prefix).append(text).push_back('\n');
}

void Outlet::progress(std::string_view prefix, std::string_view text) {
  if (is_broken() || !is_terminal_ || text.empty()) return;
  queue_.append(kClearLine).append(prefix).append(text);
  progress_on_screen_ = true;
}

void Outlet::end_progress() {
  if (progress_on_screen_ && !is_broken()) queue_.push_back('\n');
  progress_on_screen_ = false;
}

// A pipe that is ready takes PIPE_BUF bytes without blocking. Whole lines where possible: others
// may write there, too.
std::size_t Outlet::next_chunk() const {
  if (is_file_ || queue_.size() <= PIPE_BUF) return queue_.size();
  const std::size_t newline = queue_.rfind('\n', PIPE_BUF - 1);
  return newline == std::string::npos ? PIPE_BUF : newline + 1;
}

bool Outlet::is_ready() const {
  pollfd state{fd_, POLLOUT, 0};
  return ::poll(&state, 1, 0) > 0;
}

void Outlet::write_some() {
  std::size_t done = 0;
  while (!queue_.empty() && is_ready()) {
    const ssize_t written = ::write(fd_, queue_.data(), next_chunk());
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (written < 0) {
      error_ = errno;
      queue_.clear();
      return;
    }
    queue_.erase(0, static_cast<std::size_t>(written));
    done += static_cast<std::size_t>(written);
    if (done >= kFullBytes) return;  // others want to be served, too
  }
}

}  // namespace zero::cli
