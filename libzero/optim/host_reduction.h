#pragma once

/// Gradients and their sums in host memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/bucket_reduction.h"
#include "libzero/optim/comm_clock.h"

namespace zero {

class HostReduction final : public BucketReduction {
 public:
  /// `wire`: the dtype in which each bucket travels.
  HostReduction(const Layout& layout, const ParameterTable& table, std::vector<BucketState>& states,
                Collective& comm, AlignedArray<std::byte>& staging, CommClock& clock,
                std::vector<DType> wire);

  void prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
               bool zero_after) override;
  void pack(std::int32_t bucket, const BucketPiece& piece, std::vector<Contribution>& by_parameter,
            bool zero_after) override;
  void reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
              const CallName& name) override;

 private:
  const Layout& layout_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  AlignedArray<std::byte>& staging_;
  CommClock& clock_;
  std::vector<DType> wire_;
};

}  // namespace zero
