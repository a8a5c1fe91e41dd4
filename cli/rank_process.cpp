#include "cli/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "cli/exit_code.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

struct Pipe {
  UniqueFd reading;
  UniqueFd writing;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(
        std::string("cannot make a pipe for a rank; raise the limit of open files (ulimit -n): ") +
        std::strerror(errno));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct ChildPlan {
  pid_t parent;
  int null, out, err, report;
  char* const* argv;
  char* const* envp;
};

// Between fork and exec only calls that are safe there: the launcher has a second thread.
[[noreturn]] void become_rank(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // it died before the line above
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(plan.null, STDIN_FILENO);
  ::dup2(plan.out, STDOUT_FILENO);
  ::dup2(plan.err, STDERR_FILENO);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // the store's sockets among them
  ::execvpe(plan.argv[0], plan.argv, plan.envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = ::write(plan.report, &error, sizeof error);
  ::_exit(127);
}

int read_start_error(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

/// 0 where the process is gone.
pid_t parent_of(const std::filesystem::path& process) {
  char start[512];
  const UniqueFd file(::open((process / "stat").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), start, sizeof start) : -1;
  if (got <= 0) return 0;  // reading fails, too, where the process vanishes after opening
  const std::string_view text(start, static_cast<std::size_t>(got));
  const std::size_t name_end = text.rfind(')');  // the name may hold anything, also ") R 1"
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

}  // namespace

RankProcess start_rank(const std::vector<std::string>& program, const Variables& environment) {
  std::vector<std::string> arguments = program;
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(settings);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) throw IoError(std::string("cannot open /dev/null: ") + std::strerror(errno));
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  const ChildPlan plan{::getpid(),           null.get(),  out.writing.get(), err.writing.get(),
                       report.writing.get(), argv.data(), envp.data()};
  const pid_t pid = ::fork();
  if (pid < 0) throw IoError(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) become_rank(plan);
  ::setpgid(pid, pid);  // whoever comes first: the group must exist when this returns
  report.writing.reset();
  RankProcess process{pid, std::move(out.reading), std::move(err.reading),
                      read_start_error(report.reading.get())};
  ::fcntl(process.out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(process.err.get(), F_SETFL, O_NONBLOCK);
  return process;
}

ExitReport look_at(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return {};
  if (info.si_pid == 0) return {};
  if (info.si_code == CLD_EXITED) return {true, info.si_status, 0};
  return {true, 128 + info.si_status, info.si_status};
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string describe(const ExitReport& report) {
  if (report.signal == 0) return "exited with code " + std::to_string(report.code);
  const char* name = ::sigabbrev_np(report.signal);  // null for real-time signals
  return "was killed by " +
         (name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(report.signal));
}

int distance_from_cause(const ExitReport& report) noexcept {
  if (report.signal == SIGABRT || report.signal == SIGPIPE) return 2;
  if (report.signal != 0) return 0;
  return report.code == kInputOutput ? 3 : 1;
}

std::vector<pid_t> own_children() {
  const pid_t self = ::getpid();
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ptr == name.data() + name.size() && parent_of(at->path()) == self) {
      children.push_back(pid);
    }
  }
  return children;
}

void kill_orphans(const std::vector<pid_t>& spare) {
  for (;;) {
    std::vector<pid_t> children = own_children();
    std::erase_if(children, [&](pid_t pid) {
      return std::find(spare.begin(), spare.end(), pid) != spare.end();
    });
    if (children.empty()) return;
    for (const pid_t pid : children) ::kill(pid, SIGKILL);
    for (const pid_t pid : children) reap(pid);
  }
}

}  // namespace zero::cli
