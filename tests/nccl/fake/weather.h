#pragma once

/// What the fake GPU does to whoever uses it: delays, failures, and a log of broken rules.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace zero::nccl_test {

/// One for the process; any thread. Reset it before each test.
class Weather {
 public:
  static Weather& now();

  /// Everything calm, no failures, no broken rules. `device_memory`: all memory counts as the
  /// GPU's, also what was never allocated there; otherwise only what was.
  void reset(bool all_is_device_memory = true);

  /// From now on every step of the fake waits up to `most`, at random.
  void delay(std::uint64_t seed, std::chrono::microseconds most);
  void pause();
  /// A random number below `limit`, different for each call.
  std::uint64_t random(std::uint64_t limit);

  /// Called at the beginning of each function of the tables, with its name and the device or rank
  /// that it is about; what it returns, unless 0, is the function's answer, and nothing else
  /// happens.
  void on_call(std::function<int(const std::string& function, int rank)> hook);
  int call(const char* function, int rank);

  /// Called when a NCCL kernel begins; unless it returns 0, the kernel hangs until it is aborted
  /// and that is the communicator's asynchronous error. -1: hangs without an error.
  void on_kernel(std::function<int(int rank, std::int64_t kernel)> hook);
  int kernel(int rank, std::int64_t kernel);

  /// Called when a communicator is asked how it is; unless it returns 0, that is the answer.
  void on_look(std::function<int(int rank)> hook);
  int look(int rank);

  bool all_is_device_memory() const { return all_is_device_memory_; }

  /// What no test may see: a rule of CUDA or NCCL was broken.
  void broke_rule(const std::string& what);
  std::vector<std::string> broken_rules() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> all_is_device_memory_ = true;
  std::atomic<std::int64_t> most_delay_us_ = 0;
  std::atomic<std::uint64_t> random_ = 1;
  std::atomic<bool> has_hook_ = false;
  std::function<int(const std::string&, int)> hook_;
  std::function<int(int, std::int64_t)> kernel_hook_;
  std::function<int(int)> look_hook_;
  std::vector<std::string> broken_;
};

}  // namespace zero::nccl_test
