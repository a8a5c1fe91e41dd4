#pragma once

/// Weights from a file into a sharded model, in two phases: everything is read and checked before
/// anything is changed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/failure.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/distant_state.h"
#include "libzero/optim/load_parameters.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/weight_source.h"
#include "libzero/optim/weights_plan.h"

namespace zero {

/// Between the phases each rank keeps every size()-th piece of what was read: 4 bytes for each
/// element of a trainable parameter, whatever its dtype, divided by the ranks. Everything handed to
/// the constructor must outlive this.
class ParameterLoader {
 public:
  static constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

  ParameterLoader(const Layout& layout, ParameterTable& table,
                  const std::vector<NamedTensor>& buffers, std::vector<BucketState>& states,
                  Collective& comm, std::int64_t piece_elements = kPieceElements,
                  DistantState* distant = nullptr);

  /// Collective. `open` is called on rank 0 alone, whose options count. Changes nothing but this.
  /// Throws, on every rank alike, what `open` or reading threw, ContractError with everything that
  /// does not fit, and Error if a rank has no memory for its pieces; CommError.
  ParametersReport stage(const std::function<std::unique_ptr<WeightSource>()>& open,
                         const LoadParametersOptions& options);

  /// Collective, once after stage(): parameters, masters and buffers become what was read. Throws
  /// CommError: some are changed, others are not. The first failure of offloaded masters on this
  /// rank, of which the others do not know.
  std::optional<Failure> apply();

 private:
  struct Piece {
    std::int64_t target = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t bytes = 0;
  };
  std::vector<Piece> pieces_of(const std::vector<std::int64_t>& targets) const;
  at::Tensor tensor_of(std::int64_t target) const;
  bool is_trainable(std::int64_t target) const;
  void allocate();
  bool is_mine(std::size_t piece) const;
  void read_piece(const WeightSource& source, const PlannedTensor& planned, const Piece& piece,
                  std::span<std::byte> out);
  void read_pieces(const WeightSource* source, const WeightsPlan& plan);
  void apply_piece(const Piece& piece, const std::byte* values, std::byte* contiguous);
  void write_masters(const Piece& piece, const float* values);

  const Layout& layout_;
  ParameterTable& table_;
  const std::vector<NamedTensor>& buffers_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  std::int64_t piece_elements_;
  DistantState* distant_;  // null: masters lie in `states_`
  std::optional<Failure> failure_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::byte>> staged_;  // by piece; empty unless it is mine
  std::int64_t overflowed_ = 0;                 // rank 0 only
};

}  // namespace zero
