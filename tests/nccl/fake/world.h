#pragma once

/// Where the ranks of one fake NCCL communicator meet.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/nccl/fake/streams.h"

namespace zero::nccl_test {

/// What one rank has for another; its memory may be read until `taken` or withdrawn.
struct Parcel {
  std::string what;  ///< Both ends must mean the same call.
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool* taken = nullptr;
};

/// The mail between ranks: parcels of one pair of ranks arrive in the order in which they were
/// sent.
class World {
 public:
  explicit World(int size) : size_(size) {}

  int size() const { return size_; }
  void join() {
    const std::lock_guard lock(mutex_);
    ++joined_;
  }
  bool complete() {
    const std::lock_guard lock(mutex_);
    return joined_ == size_;
  }

  void send(int from, int to, const Parcel& parcel);
  /// Copies the next parcel. False if `aborted` becomes true first.
  bool receive(int from, int to, const std::string& what, void* data, std::size_t bytes,
               const std::atomic<bool>& aborted);
  /// Waits until all has been taken. False if `aborted` becomes true first; then nobody reads the
  /// parcels of `from` any more.
  bool all_taken(int from, const std::deque<bool>& taken, const std::atomic<bool>& aborted);
  void wake();

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int joined_ = 0;
  std::map<std::pair<int, int>, std::deque<Parcel>> mail_;
};

/// One call inside a group.
struct Operation {
  enum class Kind { kSend, kRecv, kAllGather, kBroadcast, kReduceScatter };
  Kind kind = Kind::kSend;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int dtype = 0;
  int peer = 0;  ///< Or the root.
  /// Whether this communicator was told of the memory. Both ends must be alike.
  bool in_is_registered = false;
  bool out_is_registered = false;
};

/// One rank.
struct FakeComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::atomic<bool> aborted = false;
  std::atomic<bool> inside = false;  // a thread is in a call
  std::mutex mutex;
  std::condition_variable changed;
  // The rest is guarded by mutex.
  enum class State { kJoining, kReady, kLaunching, kFinalizing, kFinalized, kGone };
  State state = State::kJoining;
  int looks_left = 0;  // before what is under way is done
  int error = 0;       // asynchronous
  std::vector<Operation> launch;
  FakeStream* stream = nullptr;
  int running = 0;  // kernels
  std::int64_t kernels = 0;
};

/// Bytes of an element.
std::size_t size_of_nccl(int dtype);

/// Runs on the stream's thread.
void run_kernel(FakeComm& comm, const std::vector<Operation>& operations, std::int64_t number);

}  // namespace zero::nccl_test
