#pragma once

/// A rank in a process of its own, with pipes for its standard input and output.

#include <sys/types.h>

#include <chrono>
#include <string>

namespace zero::fault_test {

class RankProcess {
 public:
  /// Starts `program`, whose main() is run_rank_program() (rank_program.h).
  RankProcess(const std::string& program, int rank, int size, int port,
              std::chrono::milliseconds timeout);
  ~RankProcess();  ///< Kills it if it still runs.
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void tell(const std::string& command);
  /// The next line of its output; "<nothing>" if none comes within half a minute, "<end>" if it has
  /// ended.
  std::string answer();
  void signal(int number);
  /// Closes its input and returns its exit status, or minus the signal that killed it.
  int finish();

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
};

}  // namespace zero::fault_test
