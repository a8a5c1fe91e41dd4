#pragma once

/// What an optimizer tells about itself while it works: who did what from when to when. Needs no
/// LibTorch; libzero/observe makes timelines and figures of it.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/step_result.h"

namespace zero {

enum class Activity : std::uint8_t {
  kForward,     ///< The caller's: from Optimizer::begin_forward(), or else from the end of the last
                ///< backward() or step(), to the next backward().
  kBackward,    ///< Autograd, the library's hooks included.
  kRoomWait,    ///< Within backward: too many gradients wait for the network already.
  kPack,        ///< A bucket's gradients into the staging buffer.
  kReduce,      ///< A bucket's gradients over the ranks: one collective.
  kReduceWait,  ///< In step(): for reductions that backward did not hide.
  kVote,        ///< The small collective in which ranks agree on the step.
  kUpdate,      ///< AdamW on a bucket; in stage 0 on one piece of it.
  kGather,      ///< A bucket over the ranks: parameters, or, in stage 0, summed gradients: one
                ///< collective.
  kGatherWait,  ///< In step(): for gathers (stage 0: and updates) that updates did not hide.
  kStep,        ///< step(), from entry to return.
};
inline constexpr std::size_t kActivities = 11;

/// Which of an optimizer's two threads.
enum class Lane : std::uint8_t { kTraining, kCommunication };

/// A collective ends on no rank before it has begun on every one. Each is made by all ranks, in
/// the same order within its lane.
constexpr bool is_collective(Activity activity) noexcept {
  return activity == Activity::kReduce || activity == Activity::kVote ||
         activity == Activity::kGather;
}

/// Nanoseconds of std::chrono::steady_clock.
using Nanoseconds = std::int64_t;

/// Now, by the clock of all spans.
inline Nanoseconds steady_now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Something that an optimizer did, from when to when.
struct Span {
  Activity activity = Activity::kStep;
  Lane lane = Lane::kTraining;
  std::int32_t bucket = -1;  ///< -1: of no bucket.
  std::int64_t bytes = 0;    ///< What this rank gives to, or takes from, a collective, the larger.
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

/// A bucket of the optimizer's layout.
struct BucketFacts {
  std::string name;  ///< "bucket 0 (last.weight .. first.bias)"
  DType dtype = DType::kFloat32;
  DType wire = DType::kFloat32;  ///< Of its gradients.
  std::int64_t elements = 0;
};

/// What does not change from step to step.
struct OptimizerFacts {
  int rank = 0;
  int world_size = 1;
  int stage = 2;
  std::string backend;
  std::vector<BucketFacts> buckets;
};

/// Given to one optimizer with Options().observer(). Without one the optimizer reads no clock for
/// it: every place costs one branch. The optimizer's two threads call it: each function says which.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Before anything else, from the optimizer's constructor, which passes on what it throws, and
  /// again from rebuild(): buckets are others from here on. What it throws there ends the
  /// optimizer.
  virtual void begin(const OptimizerFacts& facts) = 0;

  /// Something has ended, in order of ends within its lane. On that lane's thread: two calls may
  /// run at once, of different lanes. To be quick: it holds training up.
  virtual void observe(const Span& span) noexcept = 0;

  /// In step(), on the training thread: by rank, how long its collectives took in the step before
  /// this one. Who waits least is late. Zeros in the first step.
  virtual void collective_times(std::span<const Nanoseconds> by_rank) noexcept {
    static_cast<void>(by_rank);
  }

  /// step() returns with this, on the training thread; no span comes from the other before the next
  /// backward().
  virtual void step_ended(const StepResult& result) noexcept = 0;
};

/// A span from here to the end of the scope, however it is left. Nothing where `observer` is null.
/// For the thread of its lane.
class ObservedScope {
 public:
  /// `bytes` and `bucket` as in Span. `observer` must outlive this.
  ObservedScope(Observer* observer, Activity activity, Lane lane, std::int32_t bucket = -1,
                std::int64_t bytes = 0) noexcept
      : observer_(observer) {
    if (observer_ == nullptr) [[likely]]
      return;
    span_ = {activity, lane, bucket, bytes, steady_now(), 0};
  }
  ~ObservedScope() {
    if (observer_ == nullptr) [[likely]]
      return;
    span_.end = steady_now();
    observer_->observe(span_);
  }
  ObservedScope(const ObservedScope&) = delete;
  ObservedScope& operator=(const ObservedScope&) = delete;

 private:
  Observer* const observer_;
  Span span_;
};

}  // namespace zero
