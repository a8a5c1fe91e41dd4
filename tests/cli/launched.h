#pragma once

/// The command `zero` (or any other program) as a child process under test.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zero::cli::testing {

inline constexpr std::chrono::seconds kDeadline{20};

struct Result {
  int code = -1;  ///< 128 + signal for a signal; -1 if it did not end in time.
  std::string out;
  std::string err;
};

enum class Streams { kPipes, kTerminal, kOnePipe };

/// Not thread-safe. Kills what is left of the child when destroyed.
class Launched {
 public:
  Launched(std::vector<std::string> command, std::map<std::string, std::string> environment = {},
           Streams streams = Streams::kPipes);
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;

  /// Waits until `text` stands in stdout or stderr; false after the deadline.
  bool wait_for_output(const std::string& text);

  /// Waits until it has printed `count` lines "pid NUMBER" (behind any prefix), and returns the
  /// numbers.
  std::vector<pid_t> wait_for_pids(std::size_t count);

  Result wait(std::chrono::milliseconds limit = kDeadline);
  const std::string& out() const noexcept { return out_; }
  const std::string& err() const noexcept { return err_; }
  void stop_reading_stdout();

 private:
  bool pump(std::chrono::milliseconds limit);  // false when both streams have ended or time is up
  void read_from(int& fd, std::string& text);

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
  bool reaped_ = false;
};

/// Runs `zero run` with these arguments to its end.
Result zero_run(std::vector<std::string> arguments,
                std::map<std::string, std::string> environment = {});

/// {ZERO_COMMAND, "run", "-n", ranks, options..., "--", "sh", "-c", script}
std::vector<std::string> shell_ranks(int ranks, const std::string& script,
                                     const std::vector<std::string>& options = {});

/// False if the process is still there (other than as a zombie) after the deadline.
bool is_gone(pid_t pid, std::chrono::milliseconds limit = kDeadline);

std::vector<std::string> lines_of(const std::string& text);

}  // namespace zero::cli::testing
