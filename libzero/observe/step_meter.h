#pragma once

/// Where the time of a step went.

#include <array>
#include <cstdint>
#include <vector>

#include "libzero/optim/observer.h"

namespace zero::observe {

/// Of one bucket in one step: seconds inside its collectives, and bytes that they moved.
struct BucketTimes {
  double reduce = 0;
  double gather = 0;
  std::int64_t reduce_bytes = 0;
  std::int64_t gather_bytes = 0;
};

/// Seconds of the training thread, which add up to `total`: from the end of one step() to the end
/// of the next, all calls of backward() included.
struct StepTimes {
  double total = 0;
  double forward = 0;   ///< See Activity::kForward.
  double backward = 0;  ///< Without waiting for room.
  double wait = 0;      ///< For the other ranks and the network: what nothing hid.
  double update = 0;    ///< AdamW.
  double other = 0;     ///< The rest.

  // Seconds of the communication thread, which run beside those above.
  double reduce = 0;
  double gather = 0;

  std::vector<BucketTimes> buckets;
};

/// Takes no memory and no lock once it has begun. Members but observe() are the training thread's.
class StepMeter : public Observer {
 public:
  void begin(const OptimizerFacts& facts) override;
  void observe(const Span& span) noexcept override;
  void step_ended(const StepResult& result) noexcept override;

  /// Of the last step. Before the second, `total` counts from the optimizer's construction.
  const StepTimes& last() const noexcept { return last_; }

 private:
  using Sums = std::array<Nanoseconds, kActivities>;
  Nanoseconds sum(Lane lane, Activity activity) const noexcept {
    return sums_[static_cast<std::size_t>(lane)][static_cast<std::size_t>(activity)];
  }

  std::array<Sums, 2> sums_{};        // by lane, each its thread's
  std::vector<BucketTimes> buckets_;  // the communication thread's
  StepTimes last_;
  Nanoseconds step_begin_ = 0;
};

}  // namespace zero::observe
