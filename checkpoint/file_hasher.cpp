#include "checkpoint/file_hasher.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace zero::checkpoint {
namespace {

/// So much is hashed for the file and then, still in the cache, for the dataset.
constexpr std::size_t kChunk = std::size_t{128} << 10;
/// Smaller files are hashed before a thread would have started.
constexpr std::uint64_t kThreadPays = std::uint64_t{1} << 20;
/// So much is handed over at once.
constexpr std::size_t kBatch = std::size_t{1} << 20;
/// The writer waits for a thread that is further behind. Nothing is copied: this bounds how long
/// finishing may take, not memory.
constexpr std::size_t kMostBehind = std::size_t{64} << 20;

struct Part {
  std::span<const std::byte> data;
  bool of_dataset = false;
};

}  // namespace

class FileHasher::Hashes {
 public:
  explicit Hashes(std::uint64_t block_bytes) : block_bytes_(block_bytes) {}

  void add(const Part& part) noexcept {
    std::span<const std::byte> rest = part.data;
    while (!rest.empty()) {
      std::size_t count = std::min(kChunk, rest.size());
      if (part.of_dataset && in_blocks_) {
        count = std::min<std::size_t>(count, block_bytes_ - in_block_);
      }
      file_.add(rest.first(count));
      if (part.of_dataset) add_to_dataset(rest.first(count));
      rest = rest.subspan(count);
    }
  }

  void begin_dataset(std::uint64_t bytes, bool in_blocks) {
    in_blocks_ = in_blocks;
    in_block_ = 0;
    dataset_.reset();
    blocks_.clear();
    // All of it here: add() has nobody to throw at.
    if (in_blocks) blocks_.reserve((bytes / block_bytes_ + 1) * sizeof(Hash));
  }

  Dataset finish_dataset() {
    if (!in_blocks_) return {dataset_.value(), {}};
    if (in_block_ > 0) end_block();
    const Hash hash = hash_of(blocks_);
    return {hash, std::move(blocks_)};
  }

  Hash value() const { return file_.value(); }

 private:
  void add_to_dataset(std::span<const std::byte> data) noexcept {
    dataset_.add(data);
    in_block_ += data.size();
    if (in_blocks_ && in_block_ == block_bytes_) end_block();
  }
  void end_block() noexcept {
    const Hash hash = dataset_.value();
    blocks_.insert(blocks_.end(), hash.bytes.begin(), hash.bytes.end());
    dataset_.reset();
    in_block_ = 0;
  }

  const std::uint64_t block_bytes_;
  Hasher file_, dataset_;
  bool in_blocks_ = false;
  std::uint64_t in_block_ = 0;
  std::vector<std::byte> blocks_;
};

/// Adds parts to the hashes behind the caller's back.
class FileHasher::Thread {
 public:
  explicit Thread(Hashes& hashes) : hashes_(hashes), thread_([this] { work(); }) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(const Part& part) {
    if (part.data.empty()) return;
    gathered_.push_back(part);
    gathered_bytes_ += part.data.size();
    if (gathered_bytes_ >= kBatch) hand_over();
  }

  /// Returns when everything has been hashed.
  void drain() {
    hand_over();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return behind_ == 0; });
  }

 private:
  void hand_over() {
    if (gathered_.empty()) return;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return behind_ < kMostBehind; });
      batch_.insert(batch_.end(), gathered_.begin(), gathered_.end());
      behind_ += gathered_bytes_;
    }
    gathered_.clear();
    changed_.notify_all();
    gathered_bytes_ = 0;
  }

  void work() {
    std::vector<Part> batch;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !batch_.empty() || stopping_; });
      if (stopping_) return;
      std::swap(batch, batch_);
      const std::size_t taken = behind_;
      lock.unlock();
      for (const Part& part : batch) hashes_.add(part);
      batch.clear();
      lock.lock();
      behind_ -= taken;
      changed_.notify_all();
    }
  }

  Hashes& hashes_;
  std::vector<Part> gathered_;  ///< The caller's.
  std::size_t gathered_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> batch_;
  std::size_t behind_ = 0;  ///< Bytes of batch_ and of what the thread is at.
  bool stopping_ = false;
  std::thread thread_;
};

FileHasher::FileHasher(std::uint64_t file_bytes, std::uint64_t block_bytes)
    : hashes_(std::make_unique<Hashes>(block_bytes)) {
  if (file_bytes < kThreadPays) return;
  try {
    thread_ = std::make_unique<Thread>(*hashes_);
  } catch (const std::system_error&) {  // No more threads to be had: the same hashes, later.
  }
}

FileHasher::~FileHasher() = default;

void FileHasher::add(std::span<const std::byte> data) {
  if (thread_) {
    thread_->add({data, false});
  } else {
    hashes_->add({data, false});
  }
}

void FileHasher::begin_dataset(std::uint64_t bytes, bool in_blocks) {
  wait();
  hashes_->begin_dataset(bytes, in_blocks);
}

void FileHasher::add_data(std::span<const std::byte> data) {
  if (thread_) {
    thread_->add({data, true});
  } else {
    hashes_->add({data, true});
  }
}

FileHasher::Dataset FileHasher::finish_dataset() {
  wait();
  return hashes_->finish_dataset();
}

void FileHasher::wait() {
  if (thread_) thread_->drain();
}

Hash FileHasher::finish() {
  wait();
  return hashes_->value();
}

}  // namespace zero::checkpoint
