#pragma once

/// What a load reads, before anything of the optimizer is touched, and how it is put in place.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/store.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/offloaded_state.h"
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
  DistantState* distant = nullptr;    ///< Null: masters and moments lie in `states`.
  OffloadedState* offload = nullptr;  ///< The same, where it is on a disk.
};

/// One rank's share of a checkpoint, in memory of its own: as large as the shard. What is offloaded
/// lies in a file of its own instead.
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
    std::vector<AlignedArray<float>> kept;
  };
  struct Piece;
  static std::vector<Piece> pieces_of(const LoadTarget& target);
  struct Value {
    std::size_t row;  ///< Of parameters, then buffers.
    AlignedArray<std::byte> bytes;
  };

  using Read = std::function<void(std::int64_t at, std::int64_t count, float* dst)>;
  void allocate(const LoadTarget& target);
  /// Elements of one array of a piece: `read` puts them where they are kept, at most kChunk at
  /// once where that is a file.
  void keep(const Piece& piece, OffloadedArray array, const Read& read);
  OffloadedState& file_of(const Piece& piece, OffloadedArray array) const;
  /// The masters of a piece, a run at a time.
  void for_each_master(
      const Piece& piece,
      const std::function<void(std::int64_t at, std::int64_t count, const float*)>& use);
  void put_parameter(const Piece& piece, LoadTarget& target);
  void put_arrays(std::int32_t bucket, LoadTarget& target);
  void read_trainable(const checkpoint::Reader& reader, const LoadPlan& plan,
                      const LoadTarget& target);
  void read_values(const checkpoint::Reader& reader, const LoadPlan& plan,
                   const LoadTarget& target);

  std::vector<Arrays> buckets_;              // empty where state lies on a disk
  std::unique_ptr<OffloadedState> offload_;  // null where it is not
  std::unique_ptr<OffloadedState> weights_;  // with it: of float32 parameters
  std::vector<Value> values_;
};

}  // namespace zero
