#pragma once

/// A process that says lines, and can be ended at any moment.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace zero::gpu_check {

/// Where a child finds the pipe for its lines.
inline constexpr int kReportDescriptor = 3;

class Child {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts command[0] with these arguments, as leader of a process group of its own. Throws
  /// std::system_error.
  explicit Child(const std::vector<std::string>& command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Calls `take` with each line, until the child has closed its end (true) or `until` has come.
  bool read(Clock::time_point until, const std::function<void(const std::string&)>& take);

  /// The status of waitpid(), or nothing if it lives at `until`.
  std::optional<int> wait(Clock::time_point until);

  /// Ends it and all of its group. Waits for that, but not for ever: a device that hangs may keep a
  /// process.
  void kill() noexcept;

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string rest_;  // of a line
};

}  // namespace zero::gpu_check
