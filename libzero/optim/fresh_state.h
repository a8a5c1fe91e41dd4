#pragma once

/// What a load reads, before anything of the optimizer is touched, and how it is put in place.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/store.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/load_plan.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// The optimizer's memory that a load fills.
struct LoadTarget {
  const Layout& layout;
  ParameterTable& table;
  const std::vector<NamedTensor>& buffers;
  std::vector<BucketState>& states;
};

/// One rank's share of a checkpoint, in memory of its own: as large as the shard.
class FreshState {
 public:
  /// Reads everything; hashes are checked. `target` is only looked at. Throws FormatError, IoError.
  FreshState(const checkpoint::Reader& reader, const LoadPlan& plan, const LoadTarget& target);

  /// Puts masters, moments, frozen parameters and buffers in place, and the parameters of this
  /// rank's slices, rounded from the masters. Those of other slices stay as they were.
  void put_in_place(LoadTarget& target);

 private:
  struct Arrays {
    AlignedArray<float> master;  ///< Of float32 parameters, too.
    AlignedArray<float> exp_avg;
    AlignedArray<float> exp_avg_sq;
  };
  struct Value {
    std::size_t row;  ///< Of parameters, then buffers.
    AlignedArray<std::byte> bytes;
  };

  void read_trainable(const checkpoint::Reader& reader, const LoadPlan& plan,
                      const LoadTarget& target);
  void read_values(const checkpoint::Reader& reader, const LoadPlan& plan,
                   const LoadTarget& target);

  std::vector<Arrays> buckets_;
  std::vector<Value> values_;
};

}  // namespace zero
