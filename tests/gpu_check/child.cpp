#include "tests/gpu_check/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

namespace zero::gpu_check {
namespace {

constexpr std::chrono::milliseconds kPoll{5};

int milliseconds_until(Child::Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Child::Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

pid_t spawn(const std::vector<std::string>& command, int report) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.data()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, report, kReportDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "starting a process");
  return pid;
}

}  // namespace

Child::Child(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "making a pipe");
  pipe_ = ends[0];
  try {
    pid_ = spawn(command, ends[1]);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
}

Child::~Child() {
  kill();
  ::close(pipe_);
}

bool Child::read(Clock::time_point until, const std::function<void(const std::string&)>& take) {
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd ready{pipe_, POLLIN, 0};
    const int count = ::poll(&ready, 1, milliseconds_until(until));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    const ssize_t bytes = ::read(pipe_, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    rest_.append(buffer.data(), static_cast<std::size_t>(bytes));
    for (std::size_t end; (end = rest_.find('\n')) != rest_.npos; rest_.erase(0, end + 1))
      take(rest_.substr(0, end));
  }
}

std::optional<int> Child::wait(Clock::time_point until) {
  for (;;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return status;
    }
    if (Clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
}

void Child::kill() noexcept {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  wait(Clock::now() + std::chrono::seconds(10));
  pid_ = -1;
}

}  // namespace zero::gpu_check
