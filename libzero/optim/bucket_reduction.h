#pragma once

/// One bucket of micro-gradients: packed into the staging buffer, added over the ranks. Where
/// gradients and sums lie, host_reduction.h and device_reduction.h know.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// What one parameter contributes: a gradient of its shape, or an fp32 sum of its elements in
/// row-major order, in host memory, or, where both are missing, zeros.
struct Contribution {
  at::Tensor gradient;
  const float* sum = nullptr;
};

/// Which backward call is reduced, for the texts of errors.
struct CallName {
  std::int64_t call = 1;  ///< Of the window, from 1.
  std::int64_t step = 1;  ///< The one that ends the window.
};

/// Everything handed to the constructor must outlive this. Members are called on the communication
/// thread, one bucket after the other, unless they say otherwise.
class BucketReduction {
 public:
  BucketReduction(const Layout& layout, const ParameterTable& table,
                  const std::vector<BucketState>& states);
  BucketReduction(const BucketReduction&) = delete;
  BucketReduction& operator=(const BucketReduction&) = delete;
  virtual ~BucketReduction() = default;

  /// Gradients of the bucket are written by what this thread's present stream was given so far: on
  /// whatever thread autograd brings them.
  virtual void note_stream(std::int32_t /*bucket*/) {}

  /// Before autograd runs, on the thread that trains, when everything is packed: `.grad` may be
  /// written again.
  virtual void before_backward() {}

  /// On the thread that trains, when all that was packed is known to have been read: lets go of it.
  virtual void let_go() noexcept {}

  /// Makes the bucket's gradients ready for pack(): dense, in row-major order. Takes memory only
  /// where they are not.
  virtual void prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
                       bool zero_after) = 0;

  /// Fills the staging buffer with one piece of the bucket (see BucketPiece), in the wire's dtype.
  /// What nobody contributes to, holes and padding travel as zeros. With `zero_after` gradients are
  /// zeroed as they are read.
  virtual void pack(std::int32_t bucket, const BucketPiece& piece,
                    std::vector<Contribution>& by_parameter, bool zero_after) = 0;

  /// Collective: adds what pack() has left there to the accumulators, or puts it in their place,
  /// and takes the blocks' sums of squares on the way.
  virtual void reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
                      const CallName& name) = 0;

  /// "bucket 0 (last.weight .. first.bias)"
  const std::string& name(std::int32_t bucket) const {
    return names_[static_cast<std::size_t>(bucket)];
  }

  const std::vector<BucketPiece>& pieces(std::int32_t bucket) const {
    return states_[static_cast<std::size_t>(bucket)].pieces;
  }

 protected:
  /// What a reduction of the piece is called; valid until the next call. `is_whole`: it is all of
  /// its bucket.
  std::string_view label_of(std::int32_t bucket, const BucketPiece& piece, bool is_whole,
                            const CallName& name);

 private:
  const std::vector<BucketState>& states_;
  std::vector<std::string> names_;  // by bucket
  Label label_;
};

}  // namespace zero
