#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/shm/process.h"

namespace zero::shm {

/// Hears of the deaths of the ranks' processes, in a thread of its own that takes no signals and
/// sleeps until there is one. A communicator shares its guard with those that split() makes of it.
/// Any thread. Ranks in this process are not watched: without others there is no thread.
class Guard {
 public:
  /// Called with an index into `processes`, from the guard's thread or from watch(). Must not call
  /// the guard.
  using OnDeath = std::function<void(int process)>;

  /// Throws what watch_process() throws, and Unavailable if no thread can be had.
  explicit Guard(const std::vector<Process>& processes);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Tells of deaths from now on, and at once of those that have died before.
  std::uint64_t watch(OnDeath on_death);
  /// When it returns, on_death does not run and will not any more.
  void forget(std::uint64_t watcher);

 private:
  struct Ward {
    int process;
    Descriptor descriptor;
  };

  void run();
  void note_death(int process);

  std::vector<Ward> wards_;  // the thread's
  Descriptor end_;
  std::mutex mutex_;
  std::vector<int> dead_;
  std::map<std::uint64_t, OnDeath> watchers_;
  std::uint64_t last_watcher_ = 0;
  std::thread thread_;
};

}  // namespace zero::shm
