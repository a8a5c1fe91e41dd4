#include "libzero/observe/clock_alignment.h"

#include <algorithm>

#include "libzero/base/error.h"

namespace zero::observe {
namespace {

constexpr std::size_t kRemembered = 1 << 16;

/// Two clocks that drift apart by 200 parts in a million contradict each other by so much.
Nanoseconds tolerated(Nanoseconds duration) {
  return 1'000'000 + duration / 5000;
}

}  // namespace

void ClockReference::add(const TraceEvent& event) {
  if (event.sequence < 0 || collectives_.size() >= kRemembered) return;
  collectives_.try_emplace({event.step, event.thread, event.sequence},
                           Collective{event.name, event.begin, event.end()});
}

void ClockComparison::add(const TraceEvent& event) {
  if (event.sequence < 0) return;
  const auto found = reference_.collectives_.find({event.step, event.thread, event.sequence});
  if (found == reference_.collectives_.end()) return;
  const ClockReference::Collective& other = found->second;
  if (other.name != event.name) {
    throw FormatError("the ranks made different calls, the files are not of one run: step " +
                      std::to_string(event.step) + ", " + event.name + " against " + other.name);
  }
  const Nanoseconds least = event.begin - other.end;
  const Nanoseconds most = event.end() - other.begin;
  const bool is_first = collectives_++ == 0;
  least_ = is_first ? least : std::max(least_, least);
  most_ = is_first ? most : std::min(most_, most);
  first_ = is_first ? event.begin : std::min(first_, event.begin);
  last_ = is_first ? event.end() : std::max(last_, event.end());
}

ClockOffset ClockComparison::result(bool may_be_one) const {
  if (collectives_ == 0) {
    if (may_be_one) return {};
    throw FormatError(
        "the files have no collective in common by which to align their clocks; take files of the "
        "same steps of one run");
  }
  if (may_be_one && least_ <= 0 && most_ >= 0) return {};
  const Nanoseconds width = most_ - least_;
  if (width < -tolerated(last_ - first_)) {
    throw FormatError("the collectives contradict each other, the files are not of one run: by " +
                      std::to_string(-width) + " ns");
  }
  return {least_ + width / 2, std::abs(width) / 2 + 1, collectives_};
}

}  // namespace zero::observe
