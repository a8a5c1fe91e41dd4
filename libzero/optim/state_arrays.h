#pragma once

/// An optimizer's masters and moments by parameter, wherever they lie.

#include <cstdint>
#include <optional>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/offload/distant_state.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// Everything here must outlive it. Used by the thread that trains.
class StateArrays {
 public:
  StateArrays(const Layout& layout, ParameterTable& table, std::vector<BucketState>& states,
              DistantState* distant)
      : layout_(layout), table_(table), states_(states), distant_(distant) {}

  const Layout& layout() const noexcept { return layout_; }
  ParameterTable& table() const noexcept { return table_; }

  /// What this rank keeps state of: a part of the parameter, or all of it at stage 0.
  Extent kept(std::int32_t parameter) const;

  /// What is kept for each element: the master, and what the states have beside it.
  std::vector<OffloadedArray> arrays() const;
  /// The average of the master, where it is kept.
  std::optional<OffloadedArray> average() const;

  /// Elements [begin, begin + count) of a parameter, within kept(). The master of a float32
  /// parameter is the parameter, whatever dtype its tensor has by now. Throws IoError for what lies
  /// on a disk.
  void read(std::int32_t parameter, OffloadedArray array, std::int64_t begin, std::int64_t count,
            float* to) const;

  /// The same the other way round; not for masters of float32 parameters.
  void write(std::int32_t parameter, OffloadedArray array, std::int64_t begin, std::int64_t count,
             const float* from) const;

  /// After the last write().
  void flush() const;

 private:
  /// Of element `begin`, in the bucket's arrays.
  std::int64_t position(std::int32_t parameter, std::int64_t begin) const;
  float* in_memory(std::int32_t parameter, OffloadedArray array, std::int64_t begin) const;

  const Layout& layout_;
  ParameterTable& table_;
  std::vector<BucketState>& states_;
  DistantState* const distant_;  // null: state lies in `states_`
};

}  // namespace zero
