#include "cli/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "libzero/base/error.h"

namespace zero::cli {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool asks_to_end(int signal) noexcept {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

Signals::Signals() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&handled, signal);
  for (const int signal : {SIGINT, SIGHUP}) {
    if (!is_ignored(signal)) sigaddset(&handled, signal);
  }
  ::signal(SIGCHLD, SIG_DFL);  // where it was ignored, children would vanish without a report
  ::signal(SIGPIPE, SIG_IGN);
  ::pthread_sigmask(SIG_BLOCK, &handled, &before_);
  fd_ = UniqueFd(::signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) throw IoError(std::string("cannot listen for signals: ") + std::strerror(errno));
}

Signals::~Signals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> Signals::take() {
  std::vector<int> arrived;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    arrived.push_back(static_cast<int>(info.ssi_signo));
  }
  return arrived;
}

}  // namespace zero::cli
