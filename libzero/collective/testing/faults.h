#pragma once

/// Faults on demand, for the tests of whoever uses a Collective.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libzero/collective/call_header.h"
#include "libzero/collective/collective.h"

namespace zero::testing {

/// Strikes calls that fit both `operation` and `label`. reduce_scatter, all_gather, all_reduce,
/// broadcast and barrier can be struck; split and shutdown can not.
struct Fault {
  enum class Kind {
    kDelay,    ///< Sleep for `delay` before the call.
    kFail,     ///< abort(reason) before the call: CommError here and on the other ranks.
    kCorrupt,  ///< Flip bit 6 of the last byte of the result's first element, after the call (and
               ///< its epilogue).
    kReorder,  ///< Make the call only after the next one of this communicator, or when its Work is
               ///< waited for: what a caller that keeps several in flight must never do.
  };

  Kind kind = Kind::kFail;
  std::optional<Operation> operation;  ///< Any if empty.
  std::string label;                   ///< Part of the label; empty for any.
  /// 1 for the first call through the wrapper and its subgroups together that fits; 0 for each.
  std::int64_t call = 0;
  std::chrono::milliseconds delay{0};
  std::string reason = "a fault was injected";
};

/// Wraps `inner`; subgroups made by split() are wrapped too and share faults and counts. Threading
/// is that of Collective.
std::shared_ptr<Collective> with_faults(std::shared_ptr<Collective> inner,
                                        std::vector<Fault> faults);

}  // namespace zero::testing
