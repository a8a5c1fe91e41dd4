#pragma once

/// Reading and writing sharded state by parameter name.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/distant_state.h"
#include "libzero/optim/optimizer.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// Everything handed to the constructor must outlive this.
class StateAccess {
 public:
  StateAccess(const Layout& layout, ParameterTable& table, std::vector<BucketState>& states,
              Collective& comm, DistantState* distant = nullptr);

  /// Throws ContractError unless `name` is a trainable parameter and such state is kept.
  void require_state(const std::string& name, StateKind kind) const {
    owner_index(name);
    require_kept(kind);
  }

  /// See Optimizer::gather. Gradients come raw, as they lie in the accumulators.
  at::Tensor gather(const std::string& name, StateKind kind);

  /// See Optimizer::for_each_shard.
  void for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit);

 private:
  void require_kept(StateKind kind) const;
  std::int32_t owner_index(const std::string& name) const;
  /// The part of `parameter` that `rank` owns; numel 0 if none.
  Segment owned_segment(std::int32_t parameter, int rank) const;
  void visit_segment(StateKind kind, const Segment& segment,
                     const std::function<void(const ShardView&)>& visit);
  void visit_distant(OffloadedArray array, const Segment& segment,
                     const std::function<void(const ShardView&)>& visit);
  void copy_own(StateKind kind, const Segment& segment, float* to);

  const Layout& layout_;
  ParameterTable& table_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  DistantState* distant_;  // null: state lies in `states_`
};

}  // namespace zero
