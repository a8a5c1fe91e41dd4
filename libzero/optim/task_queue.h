#pragma once

/// One thread that runs tasks in the order in which they were submitted: the optimizer's
/// communication thread.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace zero {

/// All members are called by one thread (the one that trains).
class TaskQueue {
 public:
  TaskQueue();
  ~TaskQueue();  ///< Calls stop().
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Drops what has not started and waits for the task that runs; nothing runs afterwards.
  void stop();

  /// After a task has thrown, the tasks behind it are dropped until the error has been taken by
  /// drain().
  void submit(std::function<void()> task);

  /// Waits until everything submitted so far has run or was dropped, then throws the first error,
  /// if any.
  void drain();

  /// Throws (and takes) the first error without waiting.
  void rethrow_if_failed();

  /// True if nothing is queued or running.
  bool idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable all_done_;
  std::deque<std::function<void()>> tasks_;
  std::exception_ptr error_;
  bool running_task_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace zero
