#include "libzero/optim/fresh_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <span>
#include <string>

#include "libzero/base/error.h"
#include "libzero/kernels/cast.h"
#include "libzero/optim/checkpoint_rows.h"
#include "libzero/optim/model_sync.h"
#include "libzero/optim/row_match.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

using checkpoint::Reader;

/// Elements that pass through a conversion at once.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;

const ParameterSpec& saved_row(const Reader& reader, std::int32_t source) {
  return reader.common().parameters[static_cast<std::size_t>(source)];
}

std::span<std::byte> bytes_of(float* data, std::int64_t count) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count)));
}

/// Elements [begin, end) of a state of any floating type, widened.
void read_floats(const Reader& reader, std::int32_t row, const std::string& state,
                 std::int64_t begin, std::int64_t end, float* dst) {
  const DType saved = reader.dtype(row, state);
  if (saved == DType::kFloat32)
    return reader.read(row, state, begin, end, bytes_of(dst, end - begin));
  std::vector<std::byte> chunk;
  for (std::int64_t at = begin; at < end; at += kChunk) {
    const std::int64_t count = std::min(kChunk, end - at);
    chunk.resize(static_cast<std::size_t>(count * size_of(saved)));
    reader.read(row, state, at, at + count, chunk);
    cast_elements(chunk.data(), saved, dst + (at - begin), DType::kFloat32, count);
  }
}

/// Elements of a frozen parameter or buffer, as its row has them.
void read_value(const Reader& reader, std::int32_t source, const ParameterSpec& row,
                std::span<std::byte> dst) {
  const std::int64_t numel = row.numel();
  const std::string state = weights_of(saved_row(reader, source));
  if (reader.dtype(source, state) == row.dtype) {
    reader.read(source, state, 0, numel, dst);
    return;
  }
  std::vector<float> chunk;
  for (std::int64_t at = 0; at < numel; at += kChunk) {
    const std::int64_t count = std::min(kChunk, numel - at);
    chunk.resize(static_cast<std::size_t>(count));
    read_floats(reader, source, state, at, at + count, chunk.data());
    cast_elements(chunk.data(), DType::kFloat32, dst.data() + at * size_of(row.dtype), row.dtype,
                  count);
  }
}

const at::Tensor& tensor_of(const LoadTarget& target, std::size_t row) {
  const std::size_t parameters = target.table.specs.size();
  return row < parameters ? target.table.tensors[row] : target.buffers[row - parameters].tensor;
}

/// What this rank keeps masters and moments of: its slice, or everything at stage 0.
struct Piece {
  std::size_t bucket;
  std::int64_t at;  ///< Where it begins in the bucket's arrays.
  Extent extent;
};

/// By parameter, so that files are read from their beginning to their end.
std::vector<Piece> pieces_of(const LoadTarget& target) {
  std::vector<Piece> pieces;
  for (std::size_t b = 0; b < target.states.size(); ++b) {
    const Interval stepped = target.states[b].stepped;
    for (const Segment& segment : target.layout.segments(static_cast<std::int32_t>(b), stepped)) {
      pieces.push_back(
          {b,
           segment.bucket_begin - stepped.begin,
           {segment.parameter, segment.parameter_begin, segment.parameter_begin + segment.numel}});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.extent.parameter < b.extent.parameter; });
  return pieces;
}

/// For a parameter that the checkpoint lacks.
void copy_present_master(const LoadTarget& target, const Piece& piece, float* dst) {
  const Extent& extent = piece.extent;
  const ArenaArray<float>& master = target.states[piece.bucket].master;
  if (master.size() > 0) {
    std::copy_n(master.data() + piece.at, extent.end - extent.begin, dst);
  } else {
    read_elements(target.table.tensors[static_cast<std::size_t>(extent.parameter)], extent.begin,
                  extent.end - extent.begin, dst);
  }
}

void require_truth_values(const AlignedArray<std::byte>& bytes, const std::string& name) {
  for (std::int64_t i = 0; i < bytes.size(); ++i) {
    if (std::to_integer<int>(bytes.data()[i]) > 1) {
      throw FormatError("a buffer of truth values holds another value than 0 and 1: " + name +
                        ", element " + std::to_string(i));
    }
  }
}

}  // namespace

FreshState::FreshState(const Reader& reader, const LoadPlan& plan, const LoadTarget& target) {
  read_trainable(reader, plan, target);
  read_values(reader, plan, target);
}

void FreshState::read_trainable(const Reader& reader, const LoadPlan& plan,
                                const LoadTarget& target) {
  for (const BucketState& state : target.states) {
    const std::int64_t numel = state.stepped.size();
    buckets_.push_back(
        {AlignedArray<float>(numel), AlignedArray<float>(numel), AlignedArray<float>(numel)});
  }
  const std::vector<Piece> pieces = pieces_of(target);
  for (const Piece& piece : pieces) {
    const Extent& extent = piece.extent;
    const std::int32_t source = plan.sources[static_cast<std::size_t>(extent.parameter)];
    float* const dst = buckets_[piece.bucket].master.data() + piece.at;
    if (source < 0) {
      copy_present_master(target, piece, dst);
    } else {
      read_floats(reader, source, weights_of(saved_row(reader, source)), extent.begin, extent.end,
                  dst);
    }
  }
  if (!plan.moments) return;
  const auto read = [&](const char* state, AlignedArray<float> Arrays::*array) {
    for (const Piece& piece : pieces) {
      const Extent& extent = piece.extent;
      const std::int32_t source = plan.sources[static_cast<std::size_t>(extent.parameter)];
      if (source < 0 || !saved_row(reader, source).trainable) continue;  // they are 0
      read_floats(reader, source, state, extent.begin, extent.end,
                  (buckets_[piece.bucket].*array).data() + piece.at);
    }
  };
  read("exp_avg", &Arrays::exp_avg);
  read("exp_avg_sq", &Arrays::exp_avg_sq);
}

void FreshState::read_values(const Reader& reader, const LoadPlan& plan, const LoadTarget& target) {
  const std::size_t parameters = target.table.specs.size();
  for (std::size_t i = 0; i < plan.sources.size(); ++i) {
    const bool is_buffer = i >= parameters;
    if (plan.sources[i] < 0 || (!is_buffer && target.table.specs[i].trainable)) continue;
    const ParameterSpec row =
        is_buffer ? buffer_row(target.buffers[i - parameters]) : target.table.specs[i];
    Value value{i, AlignedArray<std::byte>(row.numel() * size_of(row.dtype))};
    if (row.numel() > 0) {
      read_value(reader, plan.sources[i], row,
                 {value.bytes.data(), static_cast<std::size_t>(value.bytes.size())});
    }
    if (tensor_of(target, i).scalar_type() == at::kBool)
      require_truth_values(value.bytes, row.name);
    values_.push_back(std::move(value));
  }
}

void FreshState::put_in_place(LoadTarget& target) {
  for (const Piece& piece : pieces_of(target)) {
    const auto p = static_cast<std::size_t>(piece.extent.parameter);
    const std::int64_t count = piece.extent.end - piece.extent.begin;
    const float* const master = buckets_[piece.bucket].master.data() + piece.at;
    const DType dtype = target.table.specs[p].dtype;
    at::Tensor& tensor = target.table.tensors[p];
    if (dtype == DType::kFloat32) {
      write_elements(tensor, piece.extent.begin, count, master);
    } else {
      WritableRun run(tensor, piece.extent.begin, count);
      cast_elements(master, DType::kFloat32, run.data(), dtype, count);
      run.finish();
    }
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    BucketState& state = target.states[b];
    const auto put = [](const AlignedArray<float>& from, ArenaArray<float>& to) {
      if (to.size() > 0) std::copy_n(from.data(), from.size(), to.data());
    };
    put(buckets_[b].master, state.master);
    put(buckets_[b].exp_avg, state.exp_avg);
    put(buckets_[b].exp_avg_sq, state.exp_avg_sq);
  }
  const at::NoGradGuard no_grad;
  for (Value& value : values_) {
    const at::Tensor& tensor = tensor_of(target, value.row);
    if (tensor.numel() == 0) continue;
    const at::Tensor saved = at::from_blob(value.bytes.data(), tensor.sizes(), tensor.options());
    copy_into(tensor, saved);
  }
}

}  // namespace zero
