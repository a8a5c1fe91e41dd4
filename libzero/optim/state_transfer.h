#pragma once

/// An optimizer's state, by name, into the arrays of another one with another layout.

#include <cstdint>
#include <optional>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/failure.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/state_arrays.h"
#include "libzero/optim/transfer_plan.h"

namespace zero {

/// Everything handed to the constructor must outlive this. Beside the two optimizers' arrays it
/// takes kRoundElements floats, and this rank's slice of those float32 parameters that were of
/// another dtype, or another tensor, before.
class StateTransfer {
 public:
  /// Elements that all ranks together send at once.
  static constexpr std::int64_t kRoundElements = std::int64_t{1} << 20;

  /// `sources`: as in RebuildPlan. `is_whole`: every rank holds everything (stage 0).
  StateTransfer(const StateArrays& before, const StateArrays& after,
                const std::vector<std::int32_t>& sources, bool is_whole, Collective& comm,
                std::int64_t round_elements = kRoundElements);

  /// Collective. Fills masters and moments of `after`; parameters are not touched. What fails on
  /// this rank is returned: the collectives are made to the end.
  std::optional<Failure> run();

  /// Then: this rank's slices of the parameters, from their masters. Throws IoError.
  void put_parameters();

  /// Masters of 16-bit parameters without a source, and averages of all of those := parameters.
  /// Throws IoError.
  void take_fresh_masters();

 private:
  /// One array of a row, on its way.
  struct Item {
    ShardMove move;
    OffloadedArray array;
  };
  struct Slice {
    std::int32_t parameter;
    std::int64_t begin;
    AlignedArray<float> values;
  };

  bool takes_master(std::int32_t target, std::int32_t source) const;
  void make_room(std::int32_t target);
  void add_items();
  void make_round(std::int64_t elements);
  void copy_own();
  void send_and_receive();
  void walk(int rank, std::int64_t begin, std::int64_t end, float* buffer);
  void deliver(const Item& item, std::int64_t begin, std::int64_t count, const float* values);
  void put_parameter(std::int32_t target);

  const StateArrays before_;
  const StateArrays after_;
  const std::vector<std::int32_t> sources_;
  const bool is_whole_;
  Collective& comm_;
  std::vector<Item> own_;                   // from this rank to itself
  std::vector<std::vector<Item>> streams_;  // by rank: what it sends to others, in order
  std::vector<Slice> slices_;               // of float32 parameters; by parameter
  std::int64_t longest_ = 0;                // of the streams, in elements
  std::vector<float> round_;                // what all ranks send at once, by rank
  std::optional<Failure> failure_;
};

}  // namespace zero
