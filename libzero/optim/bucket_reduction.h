#pragma once

/// One bucket of micro-gradients: packed into the staging buffer, added over the ranks.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// What one parameter contributes: a gradient of its shape, or an fp32 sum of its elements in
/// row-major order, or, where both are missing, zeros.
struct Contribution {
  at::Tensor gradient;
  const float* sum = nullptr;
};

/// Which backward call is reduced, for the texts of errors.
struct CallName {
  std::int64_t call = 1;  ///< Of the window, from 1.
  std::int64_t step = 1;  ///< The one that ends the window.
};

/// Everything handed to the constructor must outlive this. All members are called on the
/// communication thread, one bucket after the other.
class BucketReduction {
 public:
  /// `wire`: the dtype in which each bucket travels.
  BucketReduction(const Layout& layout, const ParameterTable& table,
                  std::vector<BucketState>& states, Collective& comm,
                  AlignedArray<std::byte>& staging, CommClock& clock, std::vector<DType> wire);

  /// Makes the bucket's gradients ready for pack(): dense, in row-major order. Takes memory only
  /// where they are not.
  void prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter, bool zero_after);

  /// Fills the staging buffer with one piece of the bucket (see BucketPiece), in the wire's dtype.
  /// What nobody contributes to, holes and padding travel as zeros. With `zero_after` gradients are
  /// zeroed as they are read.
  void pack(std::int32_t bucket, const BucketPiece& piece, std::vector<Contribution>& by_parameter,
            bool zero_after);

  /// Collective: adds what pack() has left there to the accumulators, or puts it in their place,
  /// and takes the blocks' sums of squares on the way.
  void reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate, const CallName& name);

  /// "bucket 0 (last.weight .. first.bias)"
  const std::string& name(std::int32_t bucket) const {
    return names_[static_cast<std::size_t>(bucket)];
  }

  const std::vector<BucketPiece>& pieces(std::int32_t bucket) const {
    return states_[static_cast<std::size_t>(bucket)].pieces;
  }

 private:
  std::string name_of_bucket(std::int32_t bucket) const;
  void copy_run(const StagedRun& run, const Contribution& from, std::byte* to, DType wire,
                bool zero_after) const;

  const Layout& layout_;
  const ParameterTable& table_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  AlignedArray<std::byte>& staging_;
  CommClock& clock_;
  std::vector<DType> wire_;
  std::vector<std::string> names_;  // by bucket
  Label label_;
};

}  // namespace zero
