#include "libzero/optim/host_reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Elements that are read and zeroed while they are in the first-level cache.
constexpr std::int64_t kZeroedAtOnce = 4096;

void copy_run(const StagedRun& run, const Contribution& from, std::byte* to, DType wire,
              bool zero_after) {
  const std::int64_t first = run.segment.parameter_begin;
  const std::int64_t numel = run.segment.numel;
  if (from.sum != nullptr) return cast_elements(from.sum + first, DType::kFloat32, to, wire, numel);
  const DType dtype = *known_dtype(from.gradient.scalar_type());
  const std::int64_t item = size_of(dtype);
  auto* const source = static_cast<std::byte*>(from.gradient.data_ptr()) + first * item;
  if (!zero_after) return cast_elements(source, dtype, to, wire, numel);
  for (std::int64_t at = 0; at < numel; at += kZeroedAtOnce) {
    const std::int64_t count = std::min(kZeroedAtOnce, numel - at);
    cast_elements(source + at * item, dtype, to + at * size_of(wire), wire, count);
    std::memset(source + at * item, 0, static_cast<std::size_t>(count * item));
  }
}

}  // namespace

HostReduction::HostReduction(const Layout& layout, const ParameterTable& table,
                             std::vector<BucketState>& states, Collective& comm,
                             AlignedArray<std::byte>& staging, CommClock& clock,
                             std::vector<DType> wire)
    : BucketReduction(layout, table, states),
      layout_(layout),
      states_(states),
      comm_(comm),
      staging_(staging),
      clock_(clock),
      wire_(std::move(wire)) {}

void HostReduction::prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
                            bool zero_after) {
  for (const std::int32_t p : layout_.buckets()[static_cast<std::size_t>(bucket)].parameters) {
    at::Tensor& gradient = by_parameter[static_cast<std::size_t>(p)].gradient;
    if (!gradient.defined()) continue;
    const auto dtype = known_dtype(gradient.scalar_type());
    const bool is_known = dtype && is_floating(*dtype);
    if (is_known && gradient.is_contiguous()) continue;
    const at::Tensor original = gradient;
    gradient = original.detach().to(is_known ? original.scalar_type() : at::kFloat).contiguous();
    if (zero_after) zero_elements(original);
  }
}

void HostReduction::pack(std::int32_t bucket, const BucketPiece& piece,
                         std::vector<Contribution>& by_parameter, bool zero_after) {
  const ObservedScope scope(clock_.observer(), Activity::kPack, Lane::kCommunication, bucket);
  const DType wire = wire_[static_cast<std::size_t>(bucket)];
  const std::int64_t item = size_of(wire);
  std::byte* const base = staging_.data();
  std::int64_t filled = 0;  // everything before this position is written
  const auto fill_to = [&](std::int64_t end) {
    std::memset(base + filled * item, 0, static_cast<std::size_t>((end - filled) * item));
  };
  for (const StagedRun& run : piece.runs) {
    const Contribution& from = by_parameter[static_cast<std::size_t>(run.segment.parameter)];
    if (!from.gradient.defined() && from.sum == nullptr) continue;
    fill_to(run.staged);
    copy_run(run, from, base + run.staged * item, wire, zero_after);
    filled = run.staged + run.segment.numel;
  }
  fill_to(piece.count * comm_.size());
}

void HostReduction::reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
                           const CallName& name) {
  const auto b = static_cast<std::size_t>(bucket);
  BucketState& state = states_[b];
  const std::string_view label =
      label_of(bucket, piece, piece.count == state.accumulator.size(), name);
  const ObservedScope scope(clock_.observer(), Activity::kReduce, Lane::kCommunication, bucket,
                            piece.count * comm_.size() * size_of(wire_[b]));
  clock_.timed([&] {
    comm_
        .reduce_scatter(
            {staging_.data(), piece.count * comm_.size(), wire_[b]},
            {state.accumulator.data() + piece.begin, piece.count, DType::kFloat32},
            {accumulate, nullptr, label, state.block_sums.data() + piece.begin / kNormBlock})
        ->wait();
  });
}

}  // namespace zero
