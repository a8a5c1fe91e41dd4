#include "libzero/optim/task_queue.h"

#include <utility>

namespace zero {

TaskQueue::TaskQueue() : thread_([this] { run(); }) {}

TaskQueue::~TaskQueue() {
  stop();
}

void TaskQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  work_arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TaskQueue::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || stopping_) return;
    tasks_.push_back(std::move(task));
  }
  work_arrived_.notify_one();
}

void TaskQueue::drain() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return tasks_.empty() && !running_task_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void TaskQueue::rethrow_if_failed() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool TaskQueue::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !running_task_;
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_arrived_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      running_task_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        task();
      } catch (...) {
        failure = std::current_exception();
      }
      task = nullptr;  // frees what it holds (gradients) outside the lock
      lock.lock();
      running_task_ = false;
      if (failure) {
        error_ = failure;
        tasks_.clear();
      }
    }
    if (tasks_.empty()) all_done_.notify_all();
  }
}

}  // namespace zero
