#pragma once

/// The narrow interface behind which ranks talk: raw memory, no LibTorch.
///
/// Calls of one Collective must be issued in the same order on every rank, one at a time (any
/// thread, but not two at once); abort() is the exception. Ranks that need to talk independently
/// take a communicator each: split().
///
/// What a rank can see to be wrong by itself (counts, types, overlaps, a root outside the world) is
/// refused at once: the call throws ContractError on this rank, and counts as never made.
/// Everything else comes out of Work::wait(), except that a Collective that is dead or shut down
/// may throw from the call itself; split() and shutdown() always do.
///
/// Before any payload moves, ranks compare what they are about to do. If operation, count, dtype,
/// reduction or root differ, every rank gets a ContractError that says what each rank asked for,
/// nothing is written, and the Collective stays usable. Any other failure is a CommError that names
/// the peer, the number of the collective, its label and what happened before; after it the
/// Collective is dead and every later call throws CommError.

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libzero/base/dtype.h"

namespace zero {

enum class ReduceOp : std::uint8_t { kSum = 1, kMax = 2 };

/// Contiguous elements of the communicator's device (the host, for all CPU backends).
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;  ///< Elements, not bytes; 0 is allowed.
  DType dtype = DType::kFloat32;
};

struct ConstBuffer {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kFloat32;
};

/// The pending result of a call. A backend may finish its work before the call returns.
class Work {
 public:
  virtual ~Work() = default;

  /// True when the work has ended, well or badly. Never blocks, never throws.
  virtual bool test() noexcept = 0;

  /// Blocks until the work has ended, at most until the Collective's timeout, and throws what went
  /// wrong: ContractError or CommError. Afterwards the buffers are the caller's again.
  virtual void wait() = 0;

  /// For buffers on a GPU: from here on `stream` (as in Collective::follow_stream()) waits for the
  /// work, so that the host need not. False where it cannot, or has failed, and wait() has to come
  /// first. wait() stays due in either case, before the buffers go or the host looks at them: it
  /// alone says what went wrong, and it alone has an end.
  virtual bool lead_stream(void* /*stream*/) noexcept { return false; }
};

using WorkPtr = std::shared_ptr<Work>;

/// Called on finished pieces of a reduce_scatter's output while they are in cache. Pieces start at
/// multiples of kEpilogueBlock elements, end at one or at the end of the output, cover it once, and
/// come in ascending order on one thread. Must not throw and must not call the Collective.
using Epilogue = std::function<void(std::int64_t begin, std::int64_t count)>;
inline constexpr std::int64_t kEpilogueBlock = 4096;

struct ReduceScatterOptions {
  bool accumulate = false;      ///< Add onto the output's present content instead of onto zero.
  Epilogue epilogue = nullptr;  ///< May be empty.
  std::string_view label;       ///< Its text must live until wait() returns.
  /// Null, or receives block_sum_of_squares() of each kNormBlock elements (both:
  /// libzero/kernels/block_norm.h) of the output, the last one shorter: taken while the sums are in
  /// registers, which a pass of one's own would have to read again. In place when wait() returns.
  double* block_squares = nullptr;
  /// Allows the backend an order of additions, and roundings between them, of its own choice, where
  /// that is faster: the bits then depend on it and on the number of ranks. The same on every rank.
  bool any_order = false;
};

/// One rank's end of a communicator, for any one thread at a time; see the head of this file.
class Collective {
 public:
  virtual ~Collective() =
      default;  ///< Never blocks longer than the timeout; prefer shutdown() first.

  /// This rank, from 0. Any thread, as size() and backend().
  virtual int rank() const noexcept = 0;
  /// Ranks of this communicator.
  virtual int size() const noexcept = 0;
  virtual std::string_view backend() const noexcept = 0;  ///< "self", "threads", "gloo", ...

  /// True if the buffers of a call may lie in the memory of this rank's GPU instead of the host's.
  virtual bool takes_device_memory() const noexcept { return false; }

  /// For buffers on a GPU: the stream (a cudaStream_t; null is the default stream) on which the
  /// caller's kernels write and read them. Calls begin when what it was given so far is done; what
  /// it is given after Work::wait() or Work::lead_stream() sees their results. Until the next call
  /// of this.
  virtual void follow_stream(void* /*stream*/) noexcept {}

  /// Memory of this rank's GPU for buffers of many calls, of the kind that register_memory() is
  /// good for; null where there is none of that kind. It is freed when nobody holds it any more,
  /// which must not be before all calls that use it have been waited for. May outlive the
  /// Collective.
  virtual std::shared_ptr<void> device_memory(std::int64_t /*bytes*/) { return nullptr; }

  /// Collective: a hint that until the token is gone buffers of many calls will lie in this memory,
  /// part of a device_memory(), so that GPUs can reach into each other's. A call's buffers must
  /// then lie in such memory on every rank or on none. Null, on every rank, where a rank cannot
  /// have it or the backend makes no difference; calls work just the same. Drop the token before
  /// the memory, on any thread, but not while a call is in flight that uses it; after a shutdown()
  /// or the death of the Collective it means nothing. Where a call fails, other ranks may write to
  /// such memory until they have heard of it. Throws where the Collective is dead or shut down.
  virtual std::shared_ptr<void> register_memory(void* /*memory*/, std::int64_t /*bytes*/) {
    return nullptr;
  }

  /// in: size() slices of out.count elements, float32, bfloat16 or float16. out: float32.
  /// out[i] = (accumulate ? out[i] : +0) + in_0[i] + in_1[i] + ... in rank order, each term widened
  /// to fp32 first. Unless options.any_order says otherwise, the result does not depend on backend,
  /// segmentation or thread count. in and out must not overlap.
  virtual WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) = 0;

  /// out: size() slices of in.count elements, slice r from rank r. In place when in.data is slice
  /// rank() of out.
  virtual WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) = 0;

  /// In place, on every rank. Sums of floating types add in rank order in fp32 (onto +0) and round
  /// once; MAX of floating types is not offered. int64 knows SUM (wrapping) and MAX.
  virtual WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) = 0;

  /// Copies root's data to every rank; any dtype.
  virtual WorkPtr broadcast(Buffer data, int root, std::string_view label) = 0;

  /// Its work ends on no rank before every one has called it.
  virtual WorkPtr barrier(std::string_view label) = 0;

  /// Collective. Ranks with equal `color` (>= 0) form a new communicator, ordered by (key, rank);
  /// it has its own sequence numbers and its own fate, and the parent's timeout or `patience`,
  /// whichever is longer (of its ranks' values, where they differ, one may count for all). Joining
  /// it takes at most the parent's timeout. A negative color gives nullptr to that rank.
  virtual std::shared_ptr<Collective> split(int color, int key,
                                            std::chrono::milliseconds patience) = 0;
  std::shared_ptr<Collective> split(int color, int key) { return split(color, key, {}); }

  /// Any thread, any time: what is in flight and every later call fails with CommError(why), here
  /// and, as soon as they hear of it, on the other ranks. The first reason stands.
  virtual void abort(std::string_view why) noexcept = 0;

  /// Collective: waits for all ranks, then leaves in good order, so that nobody takes the leaving
  /// for a death. Later calls throw ContractError; a second shutdown does nothing. On a dead
  /// communicator it only tidies up.
  virtual void shutdown() = 0;
};

/// Work that succeeded before its call returned.
WorkPtr finished_work();
/// Work that failed before its call returned: wait() rethrows `error`.
WorkPtr failed_work(std::exception_ptr error);

}  // namespace zero
