#pragma once

/// Batches made ahead of their use.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero {

/// Calls `make` on a thread of its own, ahead of next() by `capacity` items at most (and one in the
/// making), in order.
///
///   zero::Prefetcher<Loaded> batches([&]() -> std::optional<Loaded> { ... }, 2);
///   while (std::optional<Loaded> batch = batches.next()) ...
///
/// What `make` uses must outlive this, and nobody else may use it meanwhile, LibTorch's default
/// generator included. A training that saves its position in the data must let each item carry it
/// (SampleBatch::end): the maker is ahead. next() is called by one thread.
template <class Item>
class Prefetcher {
 public:
  /// `make` returns nothing at the end. Throws ContractError for capacity 0, std::system_error
  /// where no thread can be started.
  Prefetcher(std::function<std::optional<Item>()> make, std::size_t capacity)
      : make_(std::move(make)), capacity_(capacity) {
    ZERO_REQUIRE(capacity >= 1, "Prefetcher: capacity must be at least 1: 0");
    thread_ = start_quiet_thread([this] { run(); });
  }

  /// Waits for the item in the making, and drops what nobody asked for.
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next item; waits for it. Nothing at the end, and from then on. What `make` threw comes out
  /// after the items made before it, and from then on again.
  std::optional<Item> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !items_.empty() || is_over_; });
    if (items_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<Item> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void run() {
    try {
      while (has_room()) {
        std::optional<Item> item = make_();
        if (!item) break;
        const std::lock_guard lock(mutex_);
        items_.push_back(std::move(*item));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

  /// Waits; false if nobody wants more.
  bool has_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stops_ || items_.size() < capacity_; });
    return !stops_;
  }

  std::function<std::optional<Item>()> make_;
  std::size_t capacity_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::exception_ptr error_;
  bool is_over_ = false;
  bool stops_ = false;

  std::thread thread_;
};

}  // namespace zero
