#include "cli/keeper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "libzero/base/error.h"

namespace zero::cli {
namespace {

// Other messages: a group to watch, or its negative to forget it.
constexpr pid_t kAllIsOver = 0;
constexpr int kPipe = 3;

[[noreturn]] void keep(int pipe) {
  ::setsid();  // out of reach of what is sent to the launcher's group
  ::prctl(PR_SET_NAME, "zero keeper");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::dup2(pipe, kPipe);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::close_range(kPipe + 1, ~0u, 0);
  std::vector<pid_t> groups;
  for (;;) {
    pid_t group = kAllIsOver;
    const ssize_t got = ::read(kPipe, &group, sizeof group);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof group) break;
    if (group == kAllIsOver) ::_exit(0);
    if (group > 0) {
      groups.push_back(group);
    } else {
      std::erase(groups, -group);
    }
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Keeper::Keeper() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  UniqueFd reading(ends[0]);
  pipe_ = UniqueFd(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw IoError(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid_ == 0) {
    ::close(ends[1]);
    keep(reading.get());
  }
}

Keeper::~Keeper() {
  tell(kAllIsOver);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::watch(pid_t process_group) noexcept {
  tell(process_group);
}

void Keeper::forget(pid_t process_group) noexcept {
  tell(-process_group);
}

void Keeper::tell(pid_t message) noexcept {
  // A pid is far below PIPE_BUF: it arrives whole. A keeper that somebody killed is no reason to
  // stop.
  [[maybe_unused]] const ssize_t sent = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace zero::cli
