#pragma once

/// What each rank of another world gets of a checkpoint. Plans only, reads no data.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

class ReshardPlan {
 public:
  /// REQUIRES that `source` outlives it and 1 <= world_size <= kMaxWorldSize. Throws FormatError if
  /// the source's parameters cannot be cut.
  ReshardPlan(const Reader& source, int world_size);

  /// The source's, but for whose blobs are surplus.
  const CommonState& common() const { return common_; }

  /// What the rank holds, as a trainer hands it in (see Ownership); the data are left to the
  /// caller.
  std::vector<StateView> views(int rank) const;

  /// What the source has of this rank: saved by it, or kept from a larger world.
  std::map<std::string, Blob> blobs(int rank) const;

 private:
  const Reader& source_;
  CommonState common_;
  Ownership ownership_;
  std::vector<std::pair<std::string, DType>> kinds_;    // Sorted.
  std::vector<bool> trainable_;                         // Whether a trainable parameter has it.
  std::vector<std::vector<std::size_t>> kinds_of_row_;  // Indices into kinds_.
};

}  // namespace zero::checkpoint
