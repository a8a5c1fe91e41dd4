#pragma once

/// Counts what a steady step must not do. allocations.cpp replaces malloc and its family.

#include <cstdint>

namespace zero::testing {

/// A thread that trains: its own allocations are LibTorch's and the test's, and do not count but
/// inside a LibraryScope. Those of a thread without a TrainingThread always count.
class TrainingThread {
 public:
  TrainingThread();
  ~TrainingThread();
  TrainingThread(const TrainingThread&) = delete;
  TrainingThread& operator=(const TrainingThread&) = delete;
};

/// From enter to leave this thread runs the library: its allocations and page faults count.
void enter_library() noexcept;
void leave_library() noexcept;

/// From now on allocations made below a function whose mangled name begins with `prefix` count as
/// excused. The function must be a shared library's own. Lives as long as the process; call once.
void excuse_functions(const char* prefix);

struct Costs {
  std::int64_t allocations = 0;  ///< By whichever thread, where they count.
  std::int64_t excused = 0;      ///< Apart from those.
  std::int64_t faults = 0;       ///< Minor page faults of training threads inside the library.
};

/// Since the last call, in the whole process.
Costs take_costs() noexcept;

/// Minor page faults so far of all threads that are no TrainingThread.
std::int64_t faults_of_other_threads();

}  // namespace zero::testing
