#include "libzero/optim/bucket_reduction.h"

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

}  // namespace

BucketReduction::BucketReduction(const Layout& layout, const ParameterTable& table,
                                 std::vector<BucketState>& states, Collective& comm,
                                 AlignedArray<std::byte>& staging, CommClock& clock,
                                 std::vector<DType> wire)
    : layout_(layout),
      table_(table),
      states_(states),
      comm_(comm),
      staging_(staging),
      clock_(clock),
      wire_(std::move(wire)) {
  std::size_t longest = 0;
  for (std::size_t b = 0; b < states_.size(); ++b) {
    names_.push_back(name_of_bucket(static_cast<std::int32_t>(b)));
    longest = std::max(longest, names_.back().size());
  }
  label_ = Label(longest + 256);
}

void BucketReduction::prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
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

void BucketReduction::copy_run(const StagedRun& run, const Contribution& from, std::byte* to,
                               DType wire, bool zero_after) const {
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

void BucketReduction::pack(std::int32_t bucket, const BucketPiece& piece,
                           std::vector<Contribution>& by_parameter, bool zero_after) {
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

void BucketReduction::reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
                             const CallName& name) {
  const auto b = static_cast<std::size_t>(bucket);
  BucketState& state = states_[b];
  label_.begin("backward call ").add(name.call).add(" of step ").add(name.step).add(", ");
  label_.add(names_[b]);
  if (piece.count < state.accumulator.size()) label_.add(" from element ").add(piece.begin);
  clock_.timed([&] {
    comm_
        .reduce_scatter({staging_.data(), piece.count * comm_.size(), wire_[b]},
                        {state.accumulator.data() + piece.begin, piece.count, DType::kFloat32},
                        {accumulate, nullptr, label_.text(),
                         state.block_sums.data() + piece.begin / kNormBlock})
        ->wait();
  });
}

std::string BucketReduction::name_of_bucket(std::int32_t bucket) const {
  const std::vector<std::int32_t>& parameters =
      layout_.buckets()[static_cast<std::size_t>(bucket)].parameters;
  const auto name_of_parameter = [this](std::int32_t p) {
    return table_.specs[static_cast<std::size_t>(p)].name;
  };
  return "bucket " + std::to_string(bucket) + " (" + name_of_parameter(parameters.front()) +
         " .. " + name_of_parameter(parameters.back()) + ")";
}

}  // namespace zero
