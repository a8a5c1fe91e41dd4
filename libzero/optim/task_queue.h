#pragma once

/// One thread that runs tasks in the order in which they were submitted: the optimizer's
/// communication thread.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace zero {

/// A call of a function that is known beforehand: to queue one takes no memory.
struct Task {
  using Function = void (*)(void* context, std::int32_t argument);

  Function run = nullptr;
  void* context = nullptr;
  std::int32_t argument = 0;
  Function drop = nullptr;  ///< Called where `run` never will be; may be null. Must not throw.
};

/// All members are called by one thread (the one that trains).
class TaskQueue {
 public:
  /// `room`: tasks that may wait at once before the queue has to grow.
  explicit TaskQueue(std::size_t room);
  ~TaskQueue();  ///< Calls stop().
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Drops what has not started and waits for the task that runs; nothing runs afterwards.
  void stop();

  /// After a task has thrown, the tasks behind it are dropped until the error has been taken by
  /// drain().
  void submit(const Task& task);

  /// Waits until everything submitted so far has run or was dropped, then throws the first error,
  /// if any.
  void drain();

  /// Throws (and takes) the first error without waiting.
  void rethrow_if_failed();

  /// True if nothing is queued or running.
  bool idle();

 private:
  void run();
  void run_first(std::unique_lock<std::mutex>& lock);
  void grow();
  Task take_first();
  void drop_all();

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable all_done_;
  std::vector<Task> ring_;  // the waiting ones: ring_[(first_ + i) % size] for i < waiting_
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  std::exception_ptr error_;
  bool running_task_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace zero
