#include "cli/keeper.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace zero::cli {
namespace {

/// A child that leads a group and waits to be killed.
pid_t start_leader() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGTERM, SIG_DFL);
    ::setpgid(0, 0);
    for (;;) ::pause();
  }
  ::setpgid(pid, pid);
  return pid;
}

int killed_by(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Keeper, KillsWhatItWatchesButNotWhatItWasToldToForget) {
  const pid_t forgotten = start_leader();
  const pid_t watched = start_leader();
  const pid_t owner = ::fork();
  if (owner == 0) {
    Keeper keeper;
    keeper.watch(forgotten);
    keeper.watch(watched);
    keeper.forget(forgotten);
    ::_exit(0);  // without a word, as one killed by SIGKILL
  }
  ::waitpid(owner, nullptr, 0);
  EXPECT_EQ(killed_by(watched), SIGKILL);
  ::kill(forgotten, SIGTERM);
  EXPECT_EQ(killed_by(forgotten), SIGTERM);
}

TEST(Keeper, KillsNothingWhenAllIsOver) {
  const pid_t leader = start_leader();
  const pid_t owner = ::fork();
  if (owner == 0) {
    {
      Keeper keeper;
      keeper.watch(leader);
    }
    ::_exit(0);
  }
  ::waitpid(owner, nullptr, 0);  // and so its keeper's end, too
  ::kill(leader, SIGTERM);
  EXPECT_EQ(killed_by(leader), SIGTERM);
}

}  // namespace
}  // namespace zero::cli
