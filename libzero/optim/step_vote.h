#pragma once

/// What ranks tell each other before a step, and what they conclude, alike.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/exact_sum.h"

namespace zero {

/// One call of Optimizer::backward.
struct BackwardCall {
  double loss = 0;
  std::int64_t weight = 1;
  bool reduced = true;  ///< False inside no_sync().
};

/// Whether a rank can step; the largest says why not.
enum class Soundness : std::int8_t {
  kSound = 0,
  kBackwardThrew = 1,
  kRefused = 2,    ///< Parameters or options were changed under the optimizer's hands; the rank
                   ///< itself knows which.
  kUnreduced = 3,  ///< The last calls were made inside no_sync().
};

/// Of one parameter group.
struct GroupSquares {
  ExactSum sum;
  bool finite = true;  ///< False: the sum does not count.
};

struct StepVote {
  ExactSum
      sum_of_squares;  ///< Of this rank's slices of the accumulated gradient; finite buckets only.
  bool finite = true;  ///< False if a gradient is infinity or NaN.
  std::int32_t nonfinite_parameter = -1;  ///< The first such, in registration order.
  std::int32_t unused_parameter =
      -1;  ///< First parameter without gradient, where that is an error.
  Soundness soundness = Soundness::kSound;
  std::uint64_t options = 0;  ///< Hash of the parameter groups' options, which must be alike.
  bool stop = false;          ///< This rank asks everybody to save and leave.
  std::int64_t collective_time = 0;      ///< Nanoseconds that collectives took in the step before.
  std::span<const BackwardCall> calls;   ///< In order; as many on every rank.
  std::span<const GroupSquares> groups;  ///< Empty unless wanted; as many on every rank.
};

struct StepTally {
  double sum_of_squares = 0;
  bool finite = true;
  std::int32_t nonfinite_parameter = -1;
  std::int32_t unused_parameter = -1;
  int unused_rank = -1;
  int failed_rank = -1;                   ///< First rank that is not sound.
  Soundness failure = Soundness::kSound;  ///< Its reason.
  int odd_rank = -1;                      ///< First rank with other options than rank 0.
  int odd_pattern_rank = -1;  ///< First rank whose no_sync() covered other calls than rank 0's.
  bool stop = false;          ///< A rank asks everybody to save and leave.
  std::int64_t weight = 0;
  double loss = 0;  ///< Weighted mean; losses added in global index order: call k of rank r is
                    ///< number k * size + r.
};

/// Keeps the memory that votes travel in.
class VoteBox {
 public:
  explicit VoteBox(Collective& comm) : comm_(comm), times_(static_cast<std::size_t>(comm.size())) {}

  /// Collective. Ranks with different numbers of calls get a ContractError that says each one's
  /// (see `label`).
  StepTally gather(const StepVote& vote, std::string_view label);

  /// 64-bit words that a vote takes.
  static std::int64_t words(const StepVote& vote) noexcept;

  /// By rank, of the votes gathered last.
  std::span<const std::int64_t> collective_times() const noexcept { return times_; }

  /// By parameter group, of the votes gathered last: sums of squares, infinite where one was not
  /// finite.
  std::span<const double> group_squares() const noexcept { return group_squares_; }

 private:
  Collective& comm_;
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
  void add_groups(std::size_t groups, std::size_t stride);

  std::vector<std::int64_t> times_;
  std::vector<double> group_squares_;
};

}  // namespace zero
