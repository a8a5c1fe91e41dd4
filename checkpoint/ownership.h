#pragma once

/// Who saves what: one rule for trainers and for resharding, so that a checkpoint that was
/// resharded there and back has the bytes that it had.

#include <string_view>
#include <vector>

#include "checkpoint/training_state.h"

namespace zero::checkpoint {

/// Counters in which a trainer leaves the options of its Layout (elements and bytes as in
/// LayoutOptions); they decide where shards are cut.
inline constexpr std::string_view kBucketBytes = "layout.bucket_bytes";
inline constexpr std::string_view kFirstBucketBytes = "layout.first_bucket_bytes";
inline constexpr std::string_view kShardAlignment = "layout.shard_alignment";

/// The options of `layout` as counters.
void put_layout_options(CommonState& state, const LayoutOptions& options);

/// Those of the counters, or LayoutOptions' defaults for what is missing or out of range.
LayoutOptions layout_options_of(const CommonState& state);

/// What each rank of a world saves. States of trainable parameters are cut as Layout cuts them;
/// those of frozen parameters ("value", group >= 0) into equal parts, the first ranks' one element
/// longer where it does not divide; buffers (group -1) belong to rank 0 whole. A rank hands in a
/// view of every state and dtype that trainable parameters have, without extents where it has no
/// share, and of frozen ones only what it holds.
class Ownership {
 public:
  /// REQUIRES valid `common` and 1 <= world_size <= kMaxWorldSize.
  Ownership(const CommonState& common, int world_size);

  /// Extents of `rank` among trainable parameters; sorted, none empty.
  std::vector<Extent> trainable(int rank) const;
  /// Extents of `rank` among frozen parameters and buffers; sorted, none empty.
  std::vector<Extent> frozen(int rank) const;

 private:
  Layout layout_;
  int world_size_;
};

}  // namespace zero::checkpoint
