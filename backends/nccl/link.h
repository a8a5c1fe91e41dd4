#pragma once

/// One rank's NCCL communicator with its stream, and how it comes to an end.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backends/nccl/device.h"
#include "backends/nccl/fate.h"
#include "backends/nccl/gate.h"
#include "backends/nccl/registrations.h"

namespace zero::nccl {

using Clock = std::chrono::steady_clock;

/// The communicator is dead: the reason is in Fate.
struct Stopped {};
/// The deadline has passed; nobody knows yet who is to blame.
struct Expired {};

/// NCCL knows no deadline and no death of a peer that shares a machine. So no call here blocks:
/// whatever is not finished yet is asked for again and again, until it is, until the deadline, or
/// until Fate knows of a failure. Then a helper thread aborts the NCCL communicator, which ends its
/// kernels; should NCCL hang in that as well, nobody waits for the helper but for a bounded time.
///
/// NCCL is entered by one thread at a time. All functions but await(), settled() and close()
/// belong to the thread that makes the communicator's calls.
class Link : public std::enable_shared_from_this<Link> {
 public:
  struct Options {
    ApisPtr apis;
    int device = 0;
    int rank = 0;
    int size = 1;
    std::shared_ptr<Fate> fate;
  };

  /// Makes the stream, on this thread's device, not yet the communicator.
  explicit Link(Options options);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const ApisPtr& apis() const noexcept { return options_.apis; }
  CudaStream stream() const noexcept { return stream_.get(); }
  int device() const noexcept { return options_.device; }
  int rank() const noexcept { return options_.rank; }
  int size() const noexcept { return options_.size; }

  /// For rank 0 to show to the others. Throws Broken.
  NcclUniqueId unique_id() const;

  /// Joins the other ranks. Throws Stopped, Expired or Broken, like all below.
  void connect(const NcclUniqueId& id, Clock::time_point deadline);

  /// Runs `calls` inside a group and returns when NCCL has put all of it on the stream: before that
  /// nothing else may be put there.
  void group(Clock::time_point deadline,
             const std::function<void(const NcclApi& nccl, NcclComm comm)>& calls);

  /// Throws Broken for a result that is neither success nor progress.
  void check_nccl(int result, const char* function) const;

  /// Returns when the event is done. Any thread.
  void await(const Event& event, Clock::time_point deadline);

  /// Tells NCCL of an allocation of its own, until the token is gone, finish() or kill(): before a
  /// communicator's end NCCL must have forgotten all of it. The token may outlive everything.
  std::shared_ptr<void> register_memory(const Range& allocation);
  /// All of it lies in what NCCL was told of.
  bool has_registered(const void* data, std::int64_t bytes) const {
    return registrations_.hold(data, bytes);
  }

  /// The orderly end, as all ranks do it: the stream runs dry, NCCL says good-bye.
  void finish(Clock::time_point deadline);

  /// To be called when Fate has failed: the helper begins to abort. Any thread; does not block.
  void kill() noexcept;

  /// After a failure: true when the kernels have ended, so that nobody writes any more. Waits at
  /// most for `time`.
  bool settled(std::chrono::milliseconds time) noexcept;

  /// The last call. False where the GPU hangs: then what it uses must not be freed, which would
  /// block. Waits at most for `time`.
  bool close(std::chrono::milliseconds time) noexcept;

 private:
  void settle(Clock::time_point deadline, const char* function);
  int async_error();
  void help();
  void deregister(std::int64_t number) noexcept;
  std::unique_lock<Gate> enter_at_rest() noexcept;
  bool is_launching() noexcept;
  bool is_closed() noexcept;
  void deregister_all() noexcept;

  const Options options_;
  Stream stream_;
  Gate entry_;               // to NCCL
  NcclComm born_ = nullptr;  // NCCL may write here until it has connected
  NcclComm comm_ = nullptr;
  Registrations registrations_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_helper_ = false;
  bool killed_ = false;  // someone wants the communicator aborted
  bool closing_ = false;
  bool ended_ = false;  // the helper has, and has aborted where that was wanted
  std::thread helper_;
};

}  // namespace zero::nccl
