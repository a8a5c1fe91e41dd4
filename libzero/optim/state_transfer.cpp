#include "libzero/optim/state_transfer.h"

#include <algorithm>

#include "libzero/kernels/cast.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Elements that pass through this rank's own hands at once.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;

/// [begin, end) in pieces of kChunk at most.
template <typename Use>
void in_chunks(std::int64_t begin, std::int64_t end, Use use) {
  for (std::int64_t at = begin; at < end; at += kChunk) use(at, std::min(kChunk, end - at));
}

}  // namespace

StateTransfer::StateTransfer(const StateArrays& before, const StateArrays& after,
                             const std::vector<std::int32_t>& sources, bool is_whole,
                             Collective& comm, std::int64_t round_elements)
    : before_(before),
      after_(after),
      sources_(sources),
      is_whole_(is_whole),
      comm_(comm),
      streams_(static_cast<std::size_t>(comm.size())) {
  for (std::size_t i = 0; i < sources_.size(); ++i) make_room(static_cast<std::int32_t>(i));
  add_items();
  make_round(round_elements);
}

/// A float32 parameter that stays the tensor that it was is its own master still.
bool StateTransfer::takes_master(std::int32_t target, std::int32_t source) const {
  const auto t = static_cast<std::size_t>(target), s = static_cast<std::size_t>(source);
  return after_.table().specs[t].dtype != DType::kFloat32 ||
         before_.table().specs[s].dtype != DType::kFloat32 ||
         !after_.table().tensors[t].is_same(before_.table().tensors[s]);
}

void StateTransfer::make_room(std::int32_t target) {
  const auto t = static_cast<std::size_t>(target);
  if (sources_[t] < 0 || after_.table().specs[t].dtype != DType::kFloat32 ||
      !takes_master(target, sources_[t]))
    return;
  const Extent kept = after_.kept(target);
  slices_.push_back({target, kept.begin, AlignedArray<float>(kept.end - kept.begin)});
}

void StateTransfer::add_items() {
  const int rank = comm_.rank();
  std::vector<ShardMove> moves =
      moves_between(before_.layout(), after_.layout(), sources_, is_whole_ ? 1 : comm_.size());
  for (const OffloadedArray array : after_.arrays()) {
    for (ShardMove move : moves) {
      if (array == OffloadedArray::kMaster && !takes_master(move.target, move.source)) continue;
      // Float32 masters are parameters, which every rank has whole.
      const bool is_everywhere =
          array == OffloadedArray::kMaster &&
          before_.table().specs[static_cast<std::size_t>(move.source)].dtype == DType::kFloat32;
      if (is_whole_) move.from = move.to = rank;
      if (is_everywhere) move.from = move.to;
      if (move.from != move.to) {
        streams_[static_cast<std::size_t>(move.from)].push_back({move, array});
      } else if (move.to == rank) {
        own_.push_back({move, array});
      }
    }
  }
}

std::optional<Failure> StateTransfer::run() {
  failure_ = attempt([this] { copy_own(); });
  send_and_receive();
  if (!failure_) failure_ = attempt([this] { after_.flush(); });
  return failure_;
}

void StateTransfer::copy_own() {
  std::vector<float> values(static_cast<std::size_t>(kChunk));
  for (const Item& item : own_) {
    in_chunks(item.move.begin, item.move.end, [&](std::int64_t at, std::int64_t count) {
      before_.read(item.move.source, item.array, at, count, values.data());
      deliver(item, at, count, values.data());
    });
  }
}

/// Here, not between collectives: there may be no memory for it on one rank.
void StateTransfer::make_round(std::int64_t elements) {
  for (const std::vector<Item>& stream : streams_) {
    std::int64_t length = 0;
    for (const Item& item : stream) length += item.move.size();
    longest_ = std::max(longest_, length);
  }
  const auto ranks = static_cast<std::int64_t>(streams_.size());
  const std::int64_t count = std::min(longest_, std::max<std::int64_t>(1, elements / ranks));
  round_.resize(static_cast<std::size_t>(count * ranks));
}

/// In rounds: each rank sends the next elements of its stream to all, who keep what is theirs.
void StateTransfer::send_and_receive() {
  if (longest_ == 0) return;
  const auto ranks = static_cast<std::int64_t>(streams_.size());
  const std::int64_t count = static_cast<std::int64_t>(round_.size()) / ranks;
  const auto pass = [&](int rank, std::int64_t begin) {
    if (failure_) return;
    failure_ = attempt([&] { walk(rank, begin, begin + count, round_.data() + rank * count); });
  };
  for (std::int64_t begin = 0; begin < longest_; begin += count) {
    pass(comm_.rank(), begin);
    comm_
        .all_gather({round_.data() + comm_.rank() * count, count, DType::kFloat32},
                    {round_.data(), count * ranks, DType::kFloat32}, "state for other ranks")
        ->wait();
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (rank != comm_.rank()) pass(rank, begin);
    }
  }
}

/// Elements [begin, end) of a rank's stream: out of this rank's state into the buffer, or, of what
/// others sent, into it.
void StateTransfer::walk(int rank, std::int64_t begin, std::int64_t end, float* buffer) {
  std::int64_t at = 0;  // of the item, in the stream
  for (const Item& item : streams_[static_cast<std::size_t>(rank)]) {
    const std::int64_t first = std::max(at, begin);
    const std::int64_t count = std::min(at + item.move.size(), end) - first;
    const std::int64_t element = item.move.begin + (first - at);
    at += item.move.size();
    if (first >= end) return;
    if (count <= 0) continue;
    float* const values = buffer + (first - begin);
    if (rank == comm_.rank()) {
      before_.read(item.move.source, item.array, element, count, values);
    } else if (item.move.to == comm_.rank()) {
      deliver(item, element, count, values);
    }
  }
}

void StateTransfer::deliver(const Item& item, std::int64_t begin, std::int64_t count,
                            const float* values) {
  const std::int32_t target = item.move.target;
  const bool is_parameter =
      item.array == OffloadedArray::kMaster &&
      after_.table().specs[static_cast<std::size_t>(target)].dtype == DType::kFloat32;
  if (!is_parameter) return after_.write(target, item.array, begin, count, values);
  const auto slice =
      std::lower_bound(slices_.begin(), slices_.end(), target,
                       [](const Slice& one, std::int32_t p) { return one.parameter < p; });
  std::copy_n(values, count, slice->values.data() + (begin - slice->begin));
}

void StateTransfer::put_parameters() {
  for (const Slice& slice : slices_) {
    at::Tensor& tensor = after_.table().tensors[static_cast<std::size_t>(slice.parameter)];
    if (slice.values.size() > 0)
      write_elements(tensor, slice.begin, slice.values.size(), slice.values.data());
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] >= 0 && after_.table().specs[i].dtype != DType::kFloat32)
      put_parameter(static_cast<std::int32_t>(i));
  }
}

void StateTransfer::put_parameter(std::int32_t target) {
  const auto t = static_cast<std::size_t>(target);
  const DType dtype = after_.table().specs[t].dtype;
  const Extent kept = after_.kept(target);
  if (kept.begin == kept.end) return;
  WritableRun run(after_.table().tensors[t], kept.begin, kept.end - kept.begin);
  auto* const values = static_cast<std::byte*>(run.data());
  std::vector<float> master(static_cast<std::size_t>(kChunk));
  in_chunks(kept.begin, kept.end, [&](std::int64_t at, std::int64_t count) {
    after_.read(target, OffloadedArray::kMaster, at, count, master.data());
    cast_elements(master.data(), DType::kFloat32, values + (at - kept.begin) * size_of(dtype),
                  dtype, count);
  });
  run.finish();
}

void StateTransfer::take_fresh_masters() {
  const std::optional<OffloadedArray> average = after_.average();
  std::vector<float> master(static_cast<std::size_t>(kChunk));
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const ParameterSpec& spec = after_.table().specs[i];
    const bool is_own_master = spec.dtype == DType::kFloat32;
    if (sources_[i] >= 0 || !spec.trainable || spec.alias_of >= 0 || (is_own_master && !average))
      continue;
    const auto target = static_cast<std::int32_t>(i);
    const Extent kept = after_.kept(target);
    const at::Tensor dense = after_.table().tensors[i].detach().to(at::kCPU).contiguous();
    in_chunks(kept.begin, kept.end, [&](std::int64_t at, std::int64_t count) {
      cast_elements(contiguous_element(dense, at), spec.dtype, master.data(), DType::kFloat32,
                    count);
      if (!is_own_master) after_.write(target, OffloadedArray::kMaster, at, count, master.data());
      if (average) after_.write(target, *average, at, count, master.data());
    });
  }
  after_.flush();
}

}  // namespace zero
