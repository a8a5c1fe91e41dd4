#include "tests/conformance/faults/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

extern char** environ;

namespace zero::fault_test {
namespace {

constexpr int kPatienceMilliseconds = 30'000;

struct Pipe {
  int ends[2];
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  }
};

}  // namespace

RankProcess::RankProcess(const std::string& program, int rank, int size, int port,
                         std::chrono::milliseconds timeout) {
  const Pipe input;
  const Pipe output;
  std::string arguments[] = {program, std::to_string(rank), std::to_string(size),
                             std::to_string(port), std::to_string(timeout.count())};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), arguments[4].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.ends[1], STDOUT_FILENO);
  const int rc = posix_spawn(&pid_, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input.ends[0]);
  close(output.ends[1]);
  to_ = input.ends[1];
  from_ = output.ends[0];
  if (rc != 0) throw std::runtime_error("cannot start " + arguments[0]);
}

RankProcess::~RankProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (to_ >= 0) close(to_);
  close(from_);
}

void RankProcess::tell(const std::string& command) {
  const std::string line = command + "\n";
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot tell a rank: " + command);
  }
}

std::string RankProcess::answer() {
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd readable{from_, POLLIN, 0};
    if (poll(&readable, 1, kPatienceMilliseconds) <= 0) return "<nothing>";
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof(bytes));
    if (count <= 0) return "<end>";
    unread_.append(bytes, static_cast<std::size_t>(count));
  }
}

void RankProcess::signal(int number) {
  kill(pid_, number);
}

int RankProcess::finish() {
  close(to_);
  to_ = -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace zero::fault_test
