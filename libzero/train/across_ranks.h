#pragma once

/// What ranks know apart, brought together: metrics and buffers.

#include <span>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/named_tensors.h"

namespace zero {

/// Collective: the weighted mean of the ranks' values, (sum of value * weight) / (sum of weight),
/// added in rank order in float64: the same bits on every rank (over different numbers of ranks
/// they may differ in the last place). With the number of samples as weight the mean is that over
/// all samples. A rank of weight 0 contributes nothing, be its value NaN. Throws ContractError on
/// every rank for a weight that is negative or not finite, naming the rank, or if all are 0.
double reduce_mean(double value, double weight, Collective& comm);

/// The same for several values that share a weight: loss, accuracy, ... Throws ContractError on
/// every rank where they pass different numbers of values.
std::vector<double> reduce_mean(std::span<const double> values, double weight, Collective& comm);

/// Collective: makes the module's buffers the same on every rank. Floating ones become the mean of
/// the ranks', added in rank order in float64 (BatchNorm's running_mean and running_var, of which
/// each rank sees its own batches), integers and booleans the largest (num_batches_tracked). For
/// before a checkpoint or an evaluation: an Optimizer saves rank 0's buffers. Throws ContractError
/// on every rank if names, shapes or dtypes differ, naming the first, and for complex buffers;
/// nothing was changed then.
void sync_buffers(const torch::nn::Module& module, Collective& comm);

/// The same for tensors that no module owns.
void sync_buffers(const std::vector<NamedTensor>& buffers, Collective& comm);

}  // namespace zero
