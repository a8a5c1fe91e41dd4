#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

/// What one step() did, the same on every rank except the times and the bytes.
struct StepResult {
  bool applied = false;
  std::string reason;     ///< Empty if applied; otherwise why not, naming the parameter.
  std::int64_t step = 0;  ///< Applied steps so far, this one included.

  double loss = 0;  ///< Weighted mean of the losses given to backward(), summed in global index
                    ///< order in fp64.
  std::int64_t weight = 0;  ///< Sum of the weights of all backward calls of all ranks.
  double grad_norm =
      0;  ///< L2 norm of the mean gradient before clipping; not finite if a gradient was not.
  double clip_factor = 1;  ///< Exactly 1 where nothing was clipped by its norm. Of those groups
                           ///< that have no clip_norm of their own.
  /// By parameter group, if Options::group_norms or a group's clip_norm asks for it, otherwise
  /// empty: L2 norm of its mean gradient before clipping, infinite if an element was not finite.
  std::vector<double> group_norms;
  std::vector<double> group_clip_factors;

  double loss_scale = 1;       ///< The scale that this step's gradients carried.
  double next_loss_scale = 1;  ///< The scale of the next backward.
  std::int64_t consecutive_skips = 0;
  std::string overflow_parameter;  ///< First parameter (in registration order) with a gradient that
                                   ///< is not finite.

  /// True: micro-gradients were added in the order of the global batch, which gives the same bits
  /// on any number of ranks. False: no_sync() covered a call, or the backend had an order of its
  /// own (Options::deterministic).
  bool deterministic = true;

  bool stop_requested = false;  ///< A rank asked to stop (Optimizer::request_stop): save and leave.

  double seconds = 0;  ///< Wall time of step().
  /// Time that the host spent inside collectives since the previous step, most of it during
  /// backward.
  double comm_seconds = 0;

  /// What this rank's optimizer holds, as its memory() says: in host memory, and in a GPU's.
  std::int64_t host_bytes = 0;
  std::int64_t device_bytes = 0;
};

}  // namespace zero
