#pragma once

#include <memory>

#include "libzero/collective/call_log.h"
#include "libzero/collective/collective.h"

namespace zero {

struct Recorded {
  std::shared_ptr<Collective> collective;
  std::shared_ptr<const CallLog> log;
};

/// Wraps `inner` so that its calls are counted and timed, and so that its CommErrors end with the
/// last calls ("last calls: #38 all_gather of 12 int64 [step vote] ok, ..."). Subgroups made by
/// split() are wrapped too and share the log. The log may be read from any thread and outlives the
/// collective. Its numbers are the backend's own if every call goes through the wrapper. Calls that
/// a rank's own checks refuse are in the history but are not counted. Throws ContractError if inner
/// is null.
Recorded record_calls(std::shared_ptr<Collective> inner);

}  // namespace zero
