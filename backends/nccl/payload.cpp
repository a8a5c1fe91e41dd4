#include "backends/nccl/payload.h"

#include <algorithm>
#include <string>

#include "libzero/kernels/block_norm.h"

namespace zero::nccl {
namespace {

constexpr std::int64_t kWidest = 8;  // bytes of an element

template <class Byte, class Void>
Byte* at(Void* data, std::int64_t bytes) {
  return static_cast<Byte*>(data) + bytes;
}

std::size_t length(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

int native_dtype(DType dtype) {
  if (dtype == DType::kBFloat16) return kNcclBfloat16;
  return dtype == DType::kFloat16 ? kNcclFloat16 : kNcclFloat32;
}

/// Calls work(begin, count) for pieces of [0, count).
template <class Work>
void in_pieces(std::int64_t count, std::int64_t piece, Work work) {
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    work(begin, std::min(piece, count - begin));
  }
}

}  // namespace

Payload::Payload(Link& link, std::int64_t scratch_bytes)
    : link_(link),
      scratch_(link.apis(), std::max(scratch_bytes, link.size() * kEpilogueBlock * kWidest)),
      squares_(link.apis(), piece_of(1, size_of(DType::kBFloat16)) / kNormBlock *
                                static_cast<std::int64_t>(sizeof(double))),
      pinned_(std::make_shared<PinnedPool>(link.apis(), link.device())) {}

std::int64_t Payload::piece_of(std::int64_t parts, std::int64_t element) const {
  const std::int64_t elements = scratch_.bytes() / (parts * element);
  return elements / kEpilogueBlock * kEpilogueBlock;
}

void Payload::check_launch(int error, const char* kernel) const {
  check_cuda(*link_.apis(), error, kernel);
}

void Payload::group(const Deadline& deadline,
                    const std::function<void(const NcclApi& nccl, NcclComm comm)>& calls) {
  link_.group(deadline(), calls);
  ++launches_;
}

void Payload::copy(void* to, const void* from, std::int64_t bytes) {
  const CudaApi& cuda = link_.apis()->cuda;
  check_launch(cuda.memcpy_async(to, from, length(bytes), kCudaMemcpyDefault, link_.stream()),
               "cudaMemcpyAsync");
}

void Payload::register_scratch() {
  if (told_ != nullptr) return;
  registered_.emplace(link_.apis(), scratch_.bytes(), Allocator::kNccl);
  const Range range{static_cast<const char*>(registered_->get()), registered_->bytes()};
  told_ = link_.register_memory(range);
}

/// What GPUs exchange must be registered on both sides or on neither: NCCL's sender and receiver
/// each decide by their own buffer whether to reach into the other's memory, and a receiver that
/// expects that takes nothing out of the place where the other sender puts it.
const DeviceMemory& Payload::scratch_for(const void* data, std::int64_t bytes) const {
  return link_.has_registered(data, bytes) ? *registered_ : scratch_;
}

/// One piece of every rank's slice changes hands: what others have for this rank lands in the
/// scratch, rank r's part at r * stride elements.
void Payload::exchange(const ConstBuffer& in, std::int64_t slice, std::int64_t begin,
                       std::int64_t count, std::int64_t stride, void* landing,
                       const Deadline& deadline) {
  if (link_.size() == 1) return;
  const std::int64_t element = size_of(in.dtype);
  group(deadline, [&](const NcclApi& nccl, NcclComm comm) {
    for (int step = 1; step < link_.size(); ++step) {
      // Everybody begins with another peer.
      const int to = (link_.rank() + step) % link_.size();
      const int from = (link_.rank() - step + link_.size()) % link_.size();
      const void* const outgoing = at<const std::byte>(in.data, (to * slice + begin) * element);
      void* const incoming = at<std::byte>(landing, from * stride * element);
      link_.check_nccl(
          nccl.send(outgoing, length(count * element), kNcclUint8, to, comm, link_.stream()),
          "ncclSend");
      link_.check_nccl(
          nccl.recv(incoming, length(count * element), kNcclUint8, from, comm, link_.stream()),
          "ncclRecv");
    }
  });
}

void Payload::reduce_scatter(const ConstBuffer& in, const Buffer& out,
                             const ReduceScatterOptions& options, const Deadline& deadline) {
  if (options.any_order) return native_sum(in, out, options, deadline);
  const std::int64_t element = size_of(in.dtype);
  const std::int64_t piece = piece_of(link_.size(), element);
  auto* const sums = static_cast<float*>(out.data);
  void* const landing = scratch_for(in.data, in.count * element).get();
  in_pieces(out.count, piece, [&](std::int64_t begin, std::int64_t count) {
    exchange(in, out.count, begin, count, piece, landing, deadline);
    zero::cuda::OrderedSum args;
    args.parts = landing;
    args.stride = piece;
    args.own = at<const std::byte>(in.data, (link_.rank() * out.count + begin) * element);
    args.own_rank = link_.rank();
    args.ranks = link_.size();
    args.dtype = in.dtype;
    args.accumulate = options.accumulate ? 1 : 0;
    args.out = sums + begin;
    args.count = count;
    sum(args,
        options.block_squares == nullptr ? nullptr : options.block_squares + begin / kNormBlock);
    if (!options.epilogue) return;
    Event summed(link_.apis());
    summed.record(link_.stream());
    link_.await(summed, deadline());
    options.epilogue(begin, count);
  });
}

/// NCCL's own order, and its own rounding: for 16-bit types after each addition.
void Payload::native_sum(const ConstBuffer& in, const Buffer& out,
                         const ReduceScatterOptions& options, const Deadline& deadline) {
  // In one piece: a rank's slice must be contiguous for NCCL, and so must what arrives.
  const DeviceMemory* received = &scratch_for(in.data, in.count * size_of(in.dtype));
  std::unique_ptr<DeviceMemory> larger;
  if (out.count * size_of(in.dtype) > scratch_.bytes()) {
    larger = std::make_unique<DeviceMemory>(link_.apis(), out.count * size_of(in.dtype));
    received = larger.get();
  }
  group(deadline, [&](const NcclApi& nccl, NcclComm comm) {
    link_.check_nccl(nccl.reduce_scatter(in.data, received->get(), length(out.count),
                                         native_dtype(in.dtype), kNcclSum, comm, link_.stream()),
                     "ncclReduceScatter");
  });
  const std::int64_t piece =
      squares_.bytes() / static_cast<std::int64_t>(sizeof(double)) * kNormBlock;
  in_pieces(out.count, piece, [&](std::int64_t begin, std::int64_t count) {
    zero::cuda::OrderedSum args;
    args.parts = at<const std::byte>(received->get(), begin * size_of(in.dtype));
    args.dtype = in.dtype;
    args.accumulate = options.accumulate ? 1 : 0;
    args.out = static_cast<float*>(out.data) + begin;
    args.count = count;
    sum(args,
        options.block_squares == nullptr ? nullptr : options.block_squares + begin / kNormBlock);
  });
  if (larger == nullptr && !options.epilogue) return;
  Event summed(link_.apis());
  summed.record(link_.stream());
  try {
    link_.await(summed, deadline());
  } catch (...) {
    if (larger) larger->abandon();
    throw;
  }
  if (options.epilogue) options.epilogue(0, out.count);
}

void Payload::sum(zero::cuda::OrderedSum args, double* block_squares) {
  const int type = block_squares == nullptr ? kCudaMemoryDevice
                                            : attributes_of(*link_.apis(), block_squares).type;
  const bool to_host = type != kCudaMemoryDevice && type != kCudaMemoryManaged;
  args.block_squares = to_host ? static_cast<double*>(squares_.get()) : block_squares;
  check_launch(link_.apis()->kernels.ordered_sum(&args, link_.stream()), "The kernel ordered_sum");
  if (!to_host) return;
  const std::int64_t bytes =
      (args.count + kNormBlock - 1) / kNormBlock * static_cast<std::int64_t>(sizeof(double));
  if (type != kCudaMemoryUnregistered) return copy(block_squares, squares_.get(), bytes);
  Landing landing{block_squares, pinned_->take(bytes), bytes};
  copy(landing.from.get(), squares_.get(), bytes);
  landings_.push_back(std::move(landing));
}

void Payload::all_gather(const ConstBuffer& in, const Buffer& out, const Deadline& deadline) {
  const std::int64_t bytes = in.count * size_of(in.dtype);
  if (link_.size() == 1) {
    if (in.data != out.data) copy(out.data, in.data, bytes);
    return;
  }
  group(deadline, [&](const NcclApi& nccl, NcclComm comm) {
    link_.check_nccl(
        nccl.all_gather(in.data, out.data, length(bytes), kNcclUint8, comm, link_.stream()),
        "ncclAllGather");
  });
}

void Payload::all_reduce(const Buffer& data, ReduceOp op, const Deadline& deadline) {
  const std::int64_t element = size_of(data.dtype);
  const std::int64_t piece = piece_of(link_.size(), element);
  void* const landing = scratch_for(data.data, data.count * element).get();
  in_pieces(data.count, piece, [&](std::int64_t begin, std::int64_t count) {
    void* const own = at<std::byte>(data.data, begin * element);
    zero::cuda::OrderedReduce args;
    args.parts = link_.size() == 1 ? own : landing;
    args.stride = count;
    args.ranks = link_.size();
    args.maximum = op == ReduceOp::kMax ? 1 : 0;
    args.dtype = data.dtype;
    args.out = own;
    args.count = count;
    if (link_.size() > 1) {
      all_gather({own, count, data.dtype}, {landing, count * link_.size(), data.dtype}, deadline);
    }
    check_launch(link_.apis()->kernels.ordered_reduce(&args, link_.stream()),
                 "The kernel ordered_reduce");
  });
}

void Payload::broadcast(const Buffer& data, int root, const Deadline& deadline) {
  if (link_.size() == 1) return;
  const std::int64_t bytes = data.count * size_of(data.dtype);
  group(deadline, [&](const NcclApi& nccl, NcclComm comm) {
    link_.check_nccl(
        nccl.broadcast(data.data, data.data, length(bytes), kNcclUint8, root, comm, link_.stream()),
        "ncclBroadcast");
  });
}

void Payload::abandon() noexcept {
  scratch_.abandon();
  if (registered_) registered_->abandon();
  squares_.abandon();
  pinned_->abandon();
}

}  // namespace zero::nccl
