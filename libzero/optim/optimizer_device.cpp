#include <algorithm>
#include <cmath>

#include "libzero/kernels/block_norm.h"
#include "libzero/optim/device_reduction.h"
#include "libzero/optim/device_update.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/host_reduction.h"
#include "libzero/optim/host_update.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {
namespace {

constexpr std::int64_t kAlignment = 64;

}  // namespace

bool Optimizer::Impl::lies_on_gpu(const ParameterTable& table, const Options& options) {
  return !table.device.is_cpu() && !options.offload().on_host() && !options.offload().on_disk();
}

StateMemory Optimizer::Impl::memory_of_states() const {
  if (lies_on_gpu(table_, options_)) return StateMemory::kNone;
  return options_.offload().on_disk() ? StateMemory::kSums : StateMemory::kAll;
}

PayloadSize Optimizer::Impl::largest_payload(const Options& options, const Layout& layout,
                                             const std::vector<BucketState>& states,
                                             const std::vector<DType>& wire, int world_size) {
  PayloadSize largest;
  for (std::size_t b = 0; b < wire.size(); ++b) {
    const DType gathered = options.stage() == 0 ? DType::kFloat32 : layout.buckets()[b].dtype;
    const std::int64_t item = std::max(size_of(wire[b]), size_of(gathered));
    for (const BucketPiece& piece : states[b].pieces) {
      largest.bytes = std::max(largest.bytes, piece.count * world_size * item);
      largest.slice_sums = std::max(largest.slice_sums, piece.count);
    }
  }
  return largest;
}

std::unique_ptr<DeviceHome> Optimizer::Impl::make_home(
    std::shared_ptr<const cuda::KernelApi> kernels, std::size_t groups, Content content) {
  if (!lies_on_gpu(table_, options_)) return nullptr;
  std::unique_ptr<DeviceHome> home;
  const auto make = [&] {
    PayloadSize largest =
        largest_payload(options_, layout_, states_, wire_dtypes(layout_, options_), comm_->size());
    largest.bytes = (largest.bytes + kAlignment - 1) / kAlignment * kAlignment;  // any dtype's
    home = std::make_unique<DeviceHome>(table_, std::move(kernels), options_.device_timeout(),
                                        layout_, states_, *comm_, largest, groups + 1,
                                        /*any_order=*/!options_.deterministic());
  };
  if (content == Content::kOfAnother) {
    make();
  } else {
    make_on_all(*comm_, "optimizer: making room on the GPU", make);
    home->register_staging(*comm_);
  }
  return home;
}

std::unique_ptr<ParameterUpdate> Optimizer::Impl::make_update() {
  const UpdateArithmetic arithmetic{
      *rule_, options_.ema() > 0 ? static_cast<float>(1 - options_.ema()) : 0};
  if (!home_)
    return std::make_unique<HostUpdate>(layout_, table_, states_, *comm_, staging_, clock_,
                                        arithmetic, offload_.get());
  return std::make_unique<DeviceUpdate>(layout_, table_, states_, *home_, clock_, arithmetic,
                                        comm_->rank(), comm_->size());
}

std::unique_ptr<BucketReduction> Optimizer::Impl::make_reduction() {
  std::vector<DType> wire = wire_dtypes(layout_, options_);
  if (!home_)
    return std::make_unique<HostReduction>(layout_, table_, states_, *comm_, staging_, clock_,
                                           std::move(wire));
  return std::make_unique<DeviceReduction>(layout_, table_, states_, home_->state, home_->lane,
                                           *home_->payload, home_->staging, clock_, std::move(wire),
                                           comm_->size());
}

void Optimizer::Impl::await_device() const {
  if (image_) return;  // it waits for what it needs
  wait_for(model().device, options_.device_timeout(), "what it was given so far");
}

DistantState* Optimizer::Impl::distant() const noexcept {
  if (offload_) return offload_.get();
  return home_ ? &home_->state : nullptr;
}

/// Sum 0 is everybody's, sum i + 1 that of group i.
void Optimizer::Impl::sum_on_device(StepVote& vote) {
  DeviceNorm& norm = home_->norm;
  norm.begin();
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const at::Tensor& blocks = home_->state.of(static_cast<std::int32_t>(b)).block_sums;
    norm.add(0, blocks);
    if (group_squares_.empty() || states_[b].owned.begin % kNormBlock != 0) continue;
    for (const Segment& segment : states_[b].owned_segments) {
      const std::int32_t group = table_.specs[static_cast<std::size_t>(segment.parameter)].group;
      const std::int64_t at = (segment.bucket_begin - states_[b].owned.begin) / kNormBlock;
      norm.add(static_cast<std::size_t>(group) + 1,
               blocks.narrow(0, at, (segment.numel + kNormBlock - 1) / kNormBlock));
    }
  }
  const std::vector<GroupSquares>& sums = norm.end();  // the lane has done all that it was given
  reducer_->let_go();
  vote.sum_of_squares = sums[0].sum;
  vote.finite = sums[0].finite;
  std::copy(sums.begin() + 1, sums.end(), group_squares_.begin());
  add_unaligned_groups();
  if (!vote.finite) find_nonfinite_on_device(vote);
}

/// Where shards begin inside of a block of the norm (shard_alignment).
void Optimizer::Impl::add_unaligned_groups() {
  if (group_squares_.empty()) return;
  std::vector<float> values;
  for (std::size_t b = 0; b < states_.size(); ++b) {
    if (states_[b].owned.begin % kNormBlock == 0) continue;
    for (const Segment& segment : states_[b].owned_segments) {
      const ParameterSpec& spec = table_.specs[static_cast<std::size_t>(segment.parameter)];
      values.resize(static_cast<std::size_t>(segment.numel));
      home_->state.read_gradients(static_cast<std::int32_t>(b),
                                  segment.bucket_begin - states_[b].owned.begin, values);
      add_squares(values.data(), segment.numel,
                  group_squares_[static_cast<std::size_t>(spec.group)]);
    }
  }
}

/// A segment begins where a block of the norm does, unless shards do not.
void Optimizer::Impl::find_nonfinite_on_device(StepVote& vote) const {
  std::vector<double> sums;
  std::vector<float> values;
  const auto has_nonfinite = [&](std::int32_t bucket, const Segment& segment) {
    const Interval owned = states_[static_cast<std::size_t>(bucket)].owned;
    const std::int64_t at = segment.bucket_begin - owned.begin;
    if (owned.begin % kNormBlock == 0) {
      sums.resize(static_cast<std::size_t>((segment.numel + kNormBlock - 1) / kNormBlock));
      home_->state.read_block_sums(bucket, at / kNormBlock, sums);
      return !std::all_of(sums.begin(), sums.end(), [](double s) { return std::isfinite(s); });
    }
    values.resize(static_cast<std::size_t>(segment.numel));
    home_->state.read_gradients(bucket, at, values);
    return first_nonfinite(values.data(), segment.numel) >= 0;
  };
  for (std::size_t b = 0; b < states_.size(); ++b) {
    for (const Segment& segment : states_[b].owned_segments) {
      const bool is_earlier =
          vote.nonfinite_parameter < 0 || segment.parameter < vote.nonfinite_parameter;
      if (is_earlier && has_nonfinite(static_cast<std::int32_t>(b), segment))
        vote.nonfinite_parameter = segment.parameter;
    }
  }
}

}  // namespace zero
