#include "libzero/optim/task_queue.h"

#include <algorithm>
#include <utility>

namespace zero {
namespace {

void drop(const Task& task) {
  if (task.drop != nullptr) task.drop(task.context, task.argument);
}

}  // namespace

TaskQueue::TaskQueue(std::size_t room)
    : ring_(std::max<std::size_t>(room, 1)), thread_([this] { run(); }) {}

TaskQueue::~TaskQueue() {
  stop();
}

void TaskQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    drop_all();
  }
  work_arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TaskQueue::submit(const Task& task) {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || stopping_) return drop(task);
    if (waiting_ == ring_.size()) grow();
    ring_[(first_ + waiting_++) % ring_.size()] = task;
  }
  work_arrived_.notify_one();
}

void TaskQueue::grow() {
  std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
  first_ = 0;
  ring_.resize(2 * ring_.size());
}

Task TaskQueue::take_first() {
  const Task task = ring_[first_];
  first_ = (first_ + 1) % ring_.size();
  --waiting_;
  return task;
}

void TaskQueue::drop_all() {
  while (waiting_ > 0) drop(take_first());
}

void TaskQueue::drain() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return waiting_ == 0 && !running_task_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void TaskQueue::rethrow_if_failed() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool TaskQueue::idle() {
  const std::lock_guard lock(mutex_);
  return waiting_ == 0 && !running_task_;
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_arrived_.wait(lock, [this] { return stopping_ || waiting_ > 0; });
    if (stopping_) return;
    run_first(lock);
    if (waiting_ == 0) all_done_.notify_all();
  }
}

void TaskQueue::run_first(std::unique_lock<std::mutex>& lock) {
  const Task task = take_first();
  running_task_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    task.run(task.context, task.argument);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  running_task_ = false;
  if (!failure) return;
  error_ = failure;
  drop_all();
}

}  // namespace zero
