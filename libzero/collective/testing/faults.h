#pragma once

/// Faults on demand, for the tests of whoever uses a Collective.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero::testing {

/// Strikes calls that fit both `call` and `label`. reduce_scatter, all_gather, all_reduce,
/// broadcast and barrier count as calls; split and shutdown do not.
struct Fault {
  enum class Kind {
    kDelay,    ///< Sleep for `delay` before the call.
    kFail,     ///< abort(reason) before the call: CommError here and on the other ranks.
    kCorrupt,  ///< Flip bit 6 of the last byte of the result's first element, after the call (and
               ///< its epilogue).
  };

  Kind kind = Kind::kFail;
  std::int64_t call =
      0;  ///< 1 for the first call through the wrapper and its subgroups together; 0 for any.
  std::string label;  ///< Part of the label; empty for any.
  std::chrono::milliseconds delay{0};
  std::string reason = "a fault was injected";
};

/// Wraps `inner`; subgroups made by split() are wrapped too and share faults and count. Threading
/// is that of Collective.
std::shared_ptr<Collective> with_faults(std::shared_ptr<Collective> inner,
                                        std::vector<Fault> faults);

}  // namespace zero::testing
