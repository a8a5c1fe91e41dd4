#pragma once

/// Steps one rank's part of the parameters and brings the parts together again. Where they lie,
/// host_update.h and device_update.h know.

#include <cstdint>
#include <optional>
#include <span>

#include "libzero/base/error.h"
#include "libzero/collective/failure.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// What an update does to an element.
struct UpdateArithmetic {
  const UpdateRule& rule;
  float average_weight = 0;  ///< Of the new master in the average; 0: there is none.
};

/// An update: the rule's begin_step(), begin(), then for each bucket step_bucket() on the thread
/// that trains and gather_bucket() on the communication thread (stages 1 and 2), while later ones
/// are stepped, or gather_and_step_bucket() on the communication thread (stage 0), then finish().
class ParameterUpdate {
 public:
  explicit ParameterUpdate(const UpdateArithmetic& arithmetic) : arithmetic_(arithmetic) {}
  ParameterUpdate(const ParameterUpdate&) = delete;
  ParameterUpdate& operator=(const ParameterUpdate&) = delete;
  virtual ~ParameterUpdate() = default;

  /// The raw sums of gradients are multiplied by `gradient_factor`.
  virtual void begin(float gradient_factor) = 0;
  /// One step of the bucket's owned interval.
  virtual void step_bucket(std::int32_t bucket) = 0;
  /// Around calls of gather_bucket() without a step, on the thread that trains: they see what it
  /// wrote before, it sees what they wrote.
  virtual void begin_gathers() {}
  virtual void finish_gathers() {}
  /// Collective: gives every rank the parameters that the others stepped.
  virtual void gather_bucket(std::int32_t bucket) = 0;
  /// Collective: brings the bucket's summed gradient together, and steps all of it.
  virtual void gather_and_step_bucket(std::int32_t bucket) = 0;
  /// After all buckets, when the communication thread is done: what reads parameters from here on
  /// sees the new ones. The first thing that went wrong with state on a disk since begin(); from
  /// then on nothing was stepped, but the collectives went on.
  virtual std::optional<Failure> finish() = 0;
  /// On the communication thread, after gathers: waits for those that a GPU is still at work on,
  /// for which nobody else has to.
  virtual void settle() {}

  /// From now on each element of a gradient, factor included, is brought into [-limit, limit]; 0:
  /// no.
  void clip_values(float limit) noexcept { value_limit_ = limit; }

  /// From now on gradients of a parameter group are multiplied by its factor instead of the one
  /// that is given; empty: no. Must outlive this, or the next call.
  void clip_groups(std::span<const float> factors) noexcept { group_factors_ = factors; }

  // The thread that trains, between updates. All throw IoError for state on a disk.

  /// Masters of 16-bit parameters := parameters.
  virtual void refresh_masters() = 0;
  /// The average, if there is one := masters.
  virtual void restart_average() = 0;
  /// This rank's part of the parameters := the average, rounded; gather_bucket() brings the
  /// others'.
  virtual void put_average() = 0;

 protected:
  const UpdateArithmetic arithmetic_;
  float value_limit_ = 0;
  std::span<const float> group_factors_;
};

}  // namespace zero
