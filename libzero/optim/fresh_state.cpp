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
#include "libzero/optim/offload_spans.h"
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

/// For a parameter that the checkpoint lacks: elements [begin, begin + count).
void read_present_master(const LoadTarget& target, std::int32_t parameter, std::int64_t begin,
                         std::int64_t count, float* dst) {
  const Slot slot = target.layout.slot(parameter);
  BucketState& state = target.states[static_cast<std::size_t>(slot.bucket)];
  const std::int64_t at = slot.offset + begin - state.stepped.begin;
  const auto p = static_cast<std::size_t>(parameter);
  if (target.table.specs[p].dtype == DType::kFloat32) {
    read_elements(target.table.tensors[p], begin, count, dst);
  } else if (target.distant != nullptr) {
    target.distant->read(slot.bucket, OffloadedArray::kMaster, at,
                         {dst, static_cast<std::size_t>(count)});
  } else {
    std::copy_n(state.master.data() + at, count, dst);
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

/// What this rank keeps masters and moments of: its slice, or everything at stage 0.
struct FreshState::Piece {
  std::int32_t bucket;
  std::int64_t at;  ///< Where it begins in the bucket's arrays.
  Extent extent;
  DType dtype;

  std::int64_t size() const { return extent.end - extent.begin; }
};

/// By parameter, so that files are read from their beginning to their end.
std::vector<FreshState::Piece> FreshState::pieces_of(const LoadTarget& target) {
  std::vector<Piece> pieces;
  for (std::size_t b = 0; b < target.states.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    const Interval stepped = target.states[b].stepped;
    for (const Segment& segment : target.layout.segments(bucket, stepped)) {
      pieces.push_back(
          {bucket,
           segment.bucket_begin - stepped.begin,
           {segment.parameter, segment.parameter_begin, segment.parameter_begin + segment.numel},
           target.layout.buckets()[b].dtype});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.extent.parameter < b.extent.parameter; });
  return pieces;
}

void FreshState::allocate(const LoadTarget& target) {
  if (target.offload != nullptr) {
    offload_ = target.offload->another();
    weights_ = target.offload->another(own_master_spans(target.layout, target.states));
    return;
  }
  for (const BucketState& state : target.states) {
    const std::int64_t numel = state.stepped.size();
    buckets_.push_back({AlignedArray<float>(numel), {}});
    for (std::size_t i = 0; i < state.kept.size(); ++i) buckets_.back().kept.emplace_back(numel);
  }
}

OffloadedState& FreshState::file_of(const Piece& piece, OffloadedArray array) const {
  const bool is_parameter = array == OffloadedArray::kMaster && piece.dtype == DType::kFloat32;
  return is_parameter ? *weights_ : *offload_;
}

void FreshState::keep(const Piece& piece, OffloadedArray array, const Read& read) {
  if (!offload_) {
    Arrays& arrays = buckets_[static_cast<std::size_t>(piece.bucket)];
    AlignedArray<float>& kept = array == OffloadedArray::kMaster
                                    ? arrays.master
                                    : arrays.kept[static_cast<std::size_t>(array) - 1];
    return read(0, piece.size(), kept.data() + piece.at);
  }
  std::vector<float> chunk;
  for (std::int64_t at = 0; at < piece.size(); at += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, piece.size() - at)));
    read(at, static_cast<std::int64_t>(chunk.size()), chunk.data());
    file_of(piece, array).write(piece.bucket, array, piece.at + at, chunk);
  }
}

void FreshState::read_trainable(const Reader& reader, const LoadPlan& plan,
                                const LoadTarget& target) {
  allocate(target);
  const std::vector<Piece> pieces = pieces_of(target);
  const auto is_trained = [&](std::int32_t source) {
    return source >= 0 && saved_row(reader, source).trainable;
  };
  const auto keep_all = [&](OffloadedArray array, bool of_trained, const auto& read) {
    for (const Piece& piece : pieces) {
      const std::int32_t source = plan.sources[static_cast<std::size_t>(piece.extent.parameter)];
      if (of_trained && !is_trained(source)) continue;  // they are 0
      keep(piece, array, [&](std::int64_t at, std::int64_t count, float* dst) {
        read(source, piece.extent.parameter, piece.extent.begin + at, count, dst);
      });
    }
  };
  const auto read_master = [&](std::int32_t source, std::int32_t parameter, std::int64_t begin,
                               std::int64_t count, float* dst) {
    if (source < 0) return read_present_master(target, parameter, begin, count, dst);
    read_floats(reader, source, weights_of(saved_row(reader, source)), begin, begin + count, dst);
  };
  keep_all(OffloadedArray::kMaster, false, read_master);
  const std::vector<KeptArray>& kept = target.states.front().kept;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool is_average = kept[i].kind == StateKind::kEma;
    if (!is_average && !plan.moments) continue;
    keep_all(
        kept_array(i), !is_average,
        [&, state = name_of(kept[i].kind)](std::int32_t source, std::int32_t parameter,
                                           std::int64_t begin, std::int64_t count, float* dst) {
          if (is_average && !(plan.average && is_trained(source)))
            return read_master(source, parameter, begin, count, dst);
          read_floats(reader, source, state, begin, begin + count, dst);
        });
  }
  if (offload_) offload_->flush(), weights_->flush();
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

void FreshState::for_each_master(
    const Piece& piece,
    const std::function<void(std::int64_t at, std::int64_t count, const float*)>& use) {
  if (!offload_) {
    const Arrays& arrays = buckets_[static_cast<std::size_t>(piece.bucket)];
    return use(0, piece.size(), arrays.master.data() + piece.at);
  }
  std::vector<float> chunk;
  for (std::int64_t at = 0; at < piece.size(); at += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, piece.size() - at)));
    file_of(piece, OffloadedArray::kMaster)
        .read(piece.bucket, OffloadedArray::kMaster, piece.at + at, chunk);
    use(at, static_cast<std::int64_t>(chunk.size()), chunk.data());
  }
}

void FreshState::put_parameter(const Piece& piece, LoadTarget& target) {
  at::Tensor& tensor = target.table.tensors[static_cast<std::size_t>(piece.extent.parameter)];
  for_each_master(piece, [&](std::int64_t at, std::int64_t count, const float* master) {
    if (piece.dtype == DType::kFloat32)
      return write_elements(tensor, piece.extent.begin + at, count, master);
    WritableRun run(tensor, piece.extent.begin + at, count);
    cast_elements(master, DType::kFloat32, run.data(), piece.dtype, count);
    run.finish();
  });
}

void FreshState::put_arrays(std::int32_t bucket, LoadTarget& target) {
  const Arrays& arrays = buckets_[static_cast<std::size_t>(bucket)];
  BucketState& state = target.states[static_cast<std::size_t>(bucket)];
  const auto put = [&](const AlignedArray<float>& from, OffloadedArray array,
                       ArenaArray<float>& to) {
    if (target.distant == nullptr) {
      std::copy_n(from.data(), from.size(), to.data());
    } else {
      target.distant->write(bucket, array, 0, {from.data(), static_cast<std::size_t>(from.size())});
    }
  };
  if (target.layout.buckets()[static_cast<std::size_t>(bucket)].dtype != DType::kFloat32)
    put(arrays.master, OffloadedArray::kMaster, state.master);
  for (std::size_t i = 0; i < state.kept.size(); ++i)
    put(arrays.kept[i], kept_array(i), state.kept[i].values);
}

void FreshState::put_in_place(LoadTarget& target) {
  for (const Piece& piece : pieces_of(target)) put_parameter(piece, target);
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    put_arrays(static_cast<std::int32_t>(b), target);
  if (offload_) target.offload->exchange(*offload_);
  const at::NoGradGuard no_grad;
  for (Value& value : values_) {
    const at::Tensor& tensor = tensor_of(target, value.row);
    if (tensor.numel() == 0) continue;
    const at::Tensor saved =
        at::from_blob(value.bytes.data(), tensor.sizes(), tensor.options().device(at::kCPU));
    copy_into(tensor, saved);
  }
}

}  // namespace zero
