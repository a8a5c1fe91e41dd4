#include "cli/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace zero::cli {
namespace {

bool are_same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Console::Console() : out_(STDOUT_FILENO) {
  if (!are_same_file(STDOUT_FILENO, STDERR_FILENO)) separate_err_.emplace(STDERR_FILENO);
}

bool Console::is_empty() const noexcept {
  return bytes_queued() == 0;
}

bool Console::is_broken() const noexcept {
  return out_.is_broken() || (separate_err_ && separate_err_->is_broken());
}

std::size_t Console::bytes_queued() const noexcept {
  return out_.bytes_queued() + (separate_err_ ? separate_err_->bytes_queued() : 0);
}

void Console::add_to(std::vector<pollfd>& fds) const {
  if (!out_.is_empty()) fds.push_back({out_.fd(), POLLOUT, 0});
  if (separate_err_ && !separate_err_->is_empty()) {
    fds.push_back({separate_err_->fd(), POLLOUT, 0});
  }
}

void Console::write_some() {
  out_.write_some();
  if (separate_err_) separate_err_->write_some();
}

void Console::end_progress() {
  out_.end_progress();
  if (separate_err_) separate_err_->end_progress();
}

void Console::flush(Signals& signals) {
  bool asked_to_end = false;
  while (!is_empty()) {
    const std::size_t before = bytes_queued();
    write_some();
    if (bytes_queued() < before) continue;
    if (asked_to_end) return;
    std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
    add_to(fds);
    ::poll(fds.data(), fds.size(), -1);
    const std::vector<int> arrived = signals.take();
    asked_to_end = std::any_of(arrived.begin(), arrived.end(), asks_to_end);
  }
}

int Console::loss() const noexcept {
  const auto lost = [](const Outlet& outlet) {
    return outlet.error() == EPIPE ? 0 : outlet.error();
  };
  const int of_out = lost(out_);
  return of_out == 0 && separate_err_ ? lost(*separate_err_) : of_out;
}

}  // namespace zero::cli
