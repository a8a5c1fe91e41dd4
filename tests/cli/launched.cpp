#include "tests/cli/launched.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cli/rank_environment.h"

namespace zero::cli::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Ends {
  int ours;
  int theirs;
};

Ends make_stream(Streams streams) {
  int ends[2];
  const int result = streams == Streams::kTerminal
                         ? ::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr)
                         : ::pipe2(ends, O_CLOEXEC);
  if (result != 0) throw std::runtime_error("no pipe");
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);  // nothing where the process vanishes meanwhile
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '\0' : text[end + 2];
}

}  // namespace

Launched::Launched(std::vector<std::string> command, std::map<std::string, std::string> environment,
                   Streams streams) {
  Variables variables = current_environment();
  for (const auto& [name, value] : environment) variables[name] = value;
  std::vector<std::string> settings;
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(command);
  const std::vector<char*> envp = pointers_to(settings);
  const Ends out = make_stream(streams);
  const Ends err = streams == Streams::kPipes ? make_stream(streams) : Ends{-1, out.theirs};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    for (const int number : {SIGINT, SIGHUP, SIGTERM}) ::signal(number, SIG_DFL);
    ::dup2(out.theirs, STDOUT_FILENO);
    ::dup2(err.theirs, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(99);
  }
  ::setpgid(pid_, pid_);
  ::close(out.theirs);
  if (err.ours >= 0) ::close(err.theirs);
  out_fd_ = out.ours;
  err_fd_ = err.ours;
}

Launched::~Launched() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Launched::signal(int number) const {
  ::kill(pid_, number);
}

void Launched::stop_reading_stdout() {
  ::close(out_fd_);
  out_fd_ = -1;
}

void Launched::read_from(int& fd, std::string& text) {
  char buffer[1 << 16];
  while (fd >= 0) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got > 0) {
      text.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ::close(fd);  // the end; a terminal says EIO
    fd = -1;
  }
}

bool Launched::pump(milliseconds limit) {
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  pollfd fds[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  if (::poll(fds, 2, static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) <= 0) return false;
  read_from(out_fd_, out_);
  read_from(err_fd_, err_);
  return true;
}

bool Launched::wait_for_output(const std::string& text) {
  const auto deadline = Clock::now() + kDeadline;
  for (;;) {
    if (out_.find(text) != std::string::npos || err_.find(text) != std::string::npos) return true;
    if (!pump(std::chrono::ceil<milliseconds>(deadline - Clock::now()))) return false;
  }
}

std::vector<pid_t> Launched::wait_for_pids(std::size_t count) {
  static const std::regex kPid("pid ([0-9]+)\n");
  const auto deadline = Clock::now() + kDeadline;
  for (;;) {
    std::vector<pid_t> pids;
    for (std::sregex_iterator at(out_.begin(), out_.end(), kPid), end; at != end; ++at) {
      pids.push_back(std::stoi((*at)[1]));
    }
    if (pids.size() >= count) return pids;
    if (!pump(std::chrono::ceil<milliseconds>(deadline - Clock::now()))) {
      throw std::runtime_error("too few pids: " + out_ + err_);
    }
  }
}

Result Launched::wait(milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (pump(std::chrono::ceil<milliseconds>(deadline - Clock::now()))) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) != pid_) {
    if (Clock::now() >= deadline) return {-1, out_, err_};
    std::this_thread::sleep_for(milliseconds(1));
  }
  reaped_ = true;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out_, err_};
}

Result zero_run(std::vector<std::string> arguments,
                std::map<std::string, std::string> environment) {
  std::vector<std::string> command = {ZERO_COMMAND, "run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Launched(command, std::move(environment)).wait();
}

std::vector<std::string> shell_ranks(int ranks, const std::string& script,
                                     const std::vector<std::string>& options) {
  std::vector<std::string> command = {ZERO_COMMAND, "run", "-n", std::to_string(ranks)};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", script});
  return command;
}

bool is_gone(pid_t pid, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const char state = state_of(pid);
    if (state == '\0' || state == 'Z' || state == 'X') return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace zero::cli::testing
