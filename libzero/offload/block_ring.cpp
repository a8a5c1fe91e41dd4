#include "libzero/offload/block_ring.h"

#include <algorithm>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero {

BlockRing::BlockRing(BlockStore& store, std::size_t blocks, std::int64_t block_bytes, RingSize size)
    : store_(store),
      blocks_(blocks),
      block_bytes_(whole_pages(block_bytes)),
      memory_(static_cast<std::int64_t>(std::min(size.slots, blocks)) * block_bytes_),
      slots_(std::min(size.slots, blocks)),
      queue_(slots_.size()) {
  ZERO_REQUIRE(size.slots > 0 && size.threads > 0,
               "offload: a ring needs a slot and a thread at least");
  try {
    for (std::size_t i = 0; i < std::min(size.threads, slots_.size()); ++i)
      threads_.push_back(start_quiet_thread([this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

BlockRing::~BlockRing() {
  cancel();
  stop();
}

void BlockRing::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockRing::begin() {
  if (std::exchange(walking_, true)) return;
  position_ = 0;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].block = i;
    submit(i, State::kLoading);
  }
}

/// With the lock held.
void BlockRing::submit(std::size_t slot, State state) {
  slots_[slot].state = state;
  queue_[(first_ + waiting_) % queue_.size()] = slot;
  ++waiting_;
  submitted_.notify_one();
}

void BlockRing::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || waiting_ > 0; });
    if (waiting_ == 0) return;
    const std::size_t slot = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --waiting_;
    ++running_;
    run(slot, lock);
    --running_;
    done_.notify_all();
  }
}

/// What comes after an error is dropped: its block may hang on the one that failed.
void BlockRing::run(std::size_t slot, std::unique_lock<std::mutex>& lock) {
  const auto [state, block] = slots_[slot];
  if (error_ || cancelled_) {
    slots_[slot].state = State::kFree;
    return;
  }
  std::byte* const memory = memory_.data() + static_cast<std::int64_t>(slot) * block_bytes_;
  std::exception_ptr error;
  lock.unlock();
  try {
    state == State::kLoading ? store_.load(block, memory) : store_.store(block, memory);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error && !error_) error_ = error;
  slots_[slot].state = state == State::kLoading && !error ? State::kReady : State::kFree;
  if (state != State::kStoring || error_ || cancelled_ || block + slots_.size() >= blocks_) return;
  slots_[slot].block = block + slots_.size();
  submit(slot, State::kLoading);
}

bool BlockRing::all(State a, State b) const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [&](const Slot& slot) { return slot.state == a || slot.state == b; });
}

void BlockRing::wait_for_first() {
  ZERO_REQUIRE(walking_, "offload: no walk has begun");
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return error_ || all(State::kReady, State::kFree); });
  if (error_) rethrow(lock);
}

std::byte* BlockRing::next() {
  ZERO_REQUIRE(walking_ && position_ < blocks_, "offload: there is no next block");
  const std::size_t slot = position_ % slots_.size();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] {
    return error_ || (slots_[slot].state == State::kReady && slots_[slot].block == position_);
  });
  if (error_) rethrow(lock);
  return memory_.data() + static_cast<std::int64_t>(slot) * block_bytes_;
}

void BlockRing::release() {
  const std::lock_guard lock(mutex_);
  submit(position_ % slots_.size(), State::kStoring);
  ++position_;
}

void BlockRing::finish() {
  if (!walking_ && blocks_ == 0) return;
  ZERO_REQUIRE(walking_ && position_ == blocks_, "offload: the walk has not come to its end");
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return error_ || all(State::kFree, State::kFree); });
  if (error_) rethrow(lock);
  walking_ = false;
}

void BlockRing::cancel() noexcept {
  std::unique_lock lock(mutex_);
  end_walk(lock);
}

void BlockRing::end_walk(std::unique_lock<std::mutex>& lock) {
  cancelled_ = true;
  done_.wait(lock, [this] { return waiting_ == 0 && running_ == 0; });
  cancelled_ = false;
  for (Slot& slot : slots_) slot.state = State::kFree;
  error_ = nullptr;
  walking_ = false;
}

void BlockRing::rethrow(std::unique_lock<std::mutex>& lock) {
  const std::exception_ptr error = error_;
  end_walk(lock);
  std::rethrow_exception(error);
}

}  // namespace zero
