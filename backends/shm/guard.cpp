#include "backends/shm/guard.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::shm {

Guard::Guard(const std::vector<Process>& processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].pid == ::getpid()) continue;
    auto descriptor = watch_process(processes[i]);
    const int process = static_cast<int>(i);
    if (descriptor) {
      wards_.push_back({process, *std::move(descriptor)});
    } else {
      dead_.push_back(process);
    }
  }
  if (wards_.empty()) return;
  end_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!end_.is_open()) {
    throw IoError("cannot watch over the other ranks; raise the limit of open files (ulimit -n): " +
                  std::string(std::strerror(errno)));
  }
  try {
    thread_ = start_quiet_thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Unavailable(
        std::string("cannot start the thread that watches over the other ranks; raise the limit of "
                    "processes (ulimit -u): ") +
        error.what());
  }
}

Guard::~Guard() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (::write(end_.number(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

std::uint64_t Guard::watch(OnDeath on_death) {
  const std::lock_guard lock(mutex_);
  for (const int process : dead_) on_death(process);
  watchers_.emplace(++last_watcher_, std::move(on_death));
  return last_watcher_;
}

void Guard::forget(std::uint64_t watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(watcher);
}

void Guard::run() {
  while (!wards_.empty()) {
    std::vector<pollfd> polled = {{end_.number(), POLLIN, 0}};
    for (const Ward& ward : wards_) polled.push_back({ward.descriptor.number(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled.front().revents != 0) return;
    for (std::size_t i = wards_.size(); i-- > 0;) {
      if (polled[i + 1].revents == 0) continue;
      note_death(wards_[i].process);
      wards_.erase(wards_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void Guard::note_death(int process) {
  const std::lock_guard lock(mutex_);
  dead_.push_back(process);
  for (const auto& [number, on_death] : watchers_) on_death(process);
}

}  // namespace zero::shm
