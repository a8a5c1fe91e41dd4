#include "libzero/observe/step_meter.h"

#include <algorithm>
#include <utility>

namespace zero::observe {
namespace {

double seconds(Nanoseconds time) {
  return 1e-9 * static_cast<double>(time);
}

}  // namespace

void StepMeter::begin(const OptimizerFacts& facts) {
  buckets_.assign(facts.buckets.size(), {});
  last_.buckets = buckets_;
  sums_ = {};
  step_begin_ = steady_now();
}

void StepMeter::observe(const Span& span) noexcept {
  const Nanoseconds time = span.end - span.begin;
  sums_[static_cast<std::size_t>(span.lane)][static_cast<std::size_t>(span.activity)] += time;
  if (span.bucket < 0 || !is_collective(span.activity)) return;
  BucketTimes& bucket = buckets_[static_cast<std::size_t>(span.bucket)];
  const bool is_gather = span.activity == Activity::kGather;
  (is_gather ? bucket.gather : bucket.reduce) += seconds(time);
  (is_gather ? bucket.gather_bytes : bucket.reduce_bytes) += span.bytes;
}

void StepMeter::step_ended(const StepResult&) noexcept {
  const Nanoseconds now = steady_now();
  const auto training = [this](Activity activity) { return sum(Lane::kTraining, activity); };
  const auto beside = [this](Activity activity) { return sum(Lane::kCommunication, activity); };
  // In stage 0 the other thread updates while this one waits for it.
  const Nanoseconds hidden = std::min(beside(Activity::kUpdate), training(Activity::kGatherWait));
  const Nanoseconds room = training(Activity::kRoomWait);
  const Nanoseconds backward = training(Activity::kBackward) - room;
  const Nanoseconds wait = training(Activity::kReduceWait) + training(Activity::kVote) +
                           training(Activity::kGatherWait) + room - hidden;
  const Nanoseconds update = training(Activity::kUpdate) + hidden;
  const Nanoseconds known = training(Activity::kForward) + backward + wait + update;
  const Nanoseconds total = now - std::exchange(step_begin_, now);
  last_.total = seconds(total);
  last_.forward = seconds(training(Activity::kForward));
  last_.backward = seconds(backward);
  last_.wait = seconds(wait);
  last_.update = seconds(update);
  last_.other = seconds(total - known);
  last_.reduce = seconds(beside(Activity::kReduce));
  last_.gather = seconds(beside(Activity::kGather));
  std::copy(buckets_.begin(), buckets_.end(), last_.buckets.begin());
  std::fill(buckets_.begin(), buckets_.end(), BucketTimes{});
  sums_ = {};
}

}  // namespace zero::observe
