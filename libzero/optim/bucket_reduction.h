#pragma once

/// One bucket of micro-gradients: packed into the staging buffer, added over the ranks.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// Everything handed to the constructor must outlive this. pack() and reduce() run on the
/// communication thread, one bucket after the other; name() may be called from any thread.
class BucketReduction {
 public:
  /// `wire`: the dtype in which each bucket travels.
  BucketReduction(const Layout& layout, const ParameterTable& table,
                  std::vector<BucketState>& states, Collective& comm,
                  AlignedArray<std::byte>& staging, CommClock& clock, std::vector<DType> wire);

  /// Fills the staging buffer from `gradients`, one for each of the bucket's parameters in flat
  /// order, undefined where there is none. Those, holes and padding travel as zeros. With
  /// `zero_after` the tensors are zeroed once they are read.
  void pack(std::int32_t bucket, const std::vector<at::Tensor>& gradients, bool zero_after);

  /// Collective: adds what pack() has left there to the accumulators, or puts it in their place,
  /// and takes the blocks' sums of squares on the way. `label` names the call in error texts.
  void reduce(std::int32_t bucket, bool accumulate, const std::string& label);

  /// "bucket 2 (first parameter .. last parameter)"
  std::string name(std::int32_t bucket) const;

 private:
  const Layout& layout_;
  const ParameterTable& table_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  AlignedArray<std::byte>& staging_;
  CommClock& clock_;
  const std::vector<DType> wire_;
};

}  // namespace zero
