#pragma once

/// A walk over blocks that lie elsewhere: the next ones are on their way in and the last ones on
/// their way out while one is worked on, all in a few slots of memory.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "libzero/offload/page_memory.h"

namespace zero {

/// Where blocks come from and go to: a file, say. Called by several threads at once, for different
/// blocks; what it throws ends the walk.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  virtual void load(std::size_t block, std::byte* memory) = 0;
  virtual void store(std::size_t block, const std::byte* memory) = 0;
};

struct RingSize {
  std::size_t slots = 1;    ///< Blocks in memory at most.
  std::size_t threads = 1;  ///< Loads and stores at the same time at most.
};

/// Block k lies in slot k mod slots; as soon as it is stored, block k + slots is loaded there. All
/// members are called by one thread at a time.
class BlockRing {
 public:
  /// `store` must outlive this. Blocks 0 to blocks - 1, each of at most block_bytes. Takes the
  /// memory and starts the threads. Throws std::bad_alloc, std::system_error.
  BlockRing(BlockStore& store, std::size_t blocks, std::int64_t block_bytes, RingSize size);
  /// Drops what has not begun and waits for what has.
  ~BlockRing();
  BlockRing(const BlockRing&) = delete;
  BlockRing& operator=(const BlockRing&) = delete;

  /// The first blocks are on their way in when it returns. Does nothing in a walk that has begun.
  void begin();

  /// Waits until the slots are filled. Throws the first error; the walk is cancelled then.
  void wait_for_first();

  /// Waits for the next block. It may be changed until release(), which must come before the next
  /// call. Throws the first error of any block; the walk is cancelled then. REQUIRES begin(), and
  /// that there is a next block.
  std::byte* next();
  /// Hands the block over to be stored.
  void release();
  std::size_t position() const noexcept { return position_; }

  /// Ends the walk behind the last block: all are stored. Throws the first error of any.
  void finish();

  /// Ends the walk anywhere. Blocks that were released may be stored or not.
  void cancel() noexcept;

  std::int64_t memory_bytes() const noexcept { return memory_.bytes(); }

 private:
  enum class State : std::uint8_t { kFree, kLoading, kReady, kStoring };
  struct Slot {
    State state = State::kFree;
    std::size_t block = 0;
  };

  void stop();
  void work();
  void run(std::size_t slot, std::unique_lock<std::mutex>& lock);
  void submit(std::size_t slot, State state);
  bool all(State a, State b) const;
  void end_walk(std::unique_lock<std::mutex>& lock);
  [[noreturn]] void rethrow(std::unique_lock<std::mutex>& lock);

  BlockStore& store_;
  const std::size_t blocks_;
  const std::int64_t block_bytes_;
  PageMemory memory_;
  std::size_t position_ = 0;
  bool walking_ = false;

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable done_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> queue_;  // of slots: a ring, as long as there are slots
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  bool cancelled_ = false;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace zero
