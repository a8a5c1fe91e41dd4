#include "backends/gloo/communicator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/gloo/slices.h"
#include "backends/gloo/slots.h"
#include "libzero/base/error.h"
#include "libzero/collective/check_calls.h"
#include "libzero/collective/ordered_sum.h"

namespace zero::gloo_backend {
namespace {

// Below this, gathering all contributions and adding them everywhere beats reduce_scatter and
// all_gather.
constexpr std::int64_t kGatherAllBytes = 64 << 10;

using Payload = std::span<const std::byte>;

std::int64_t bytes_of(std::int64_t count, DType dtype) {
  return count * size_of(dtype);
}

/// What rides along with the header, if it is small enough to.
Payload inline_payload(const void* data, std::int64_t bytes) {
  if (bytes <= 0 || bytes > static_cast<std::int64_t>(RollCall::kInlineBytes)) return {};
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)};
}

}  // namespace

CallHeader Communicator::next_call(Operation operation, std::string_view label, DType dtype,
                                   std::int64_t count) const {
  check_not_shut_down(mesh_.is_shut_down(), name_of(operation), label);
  return mesh_.describe_next(operation, label, dtype, count);
}

void Communicator::reduce_scatter(const ConstBuffer& in, const Buffer& out,
                                  const ReduceScatterOptions& options) {
  check_reduce_scatter(in, out, options.label, size());
  const CallHeader call = next_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
  const Slices slices = equal_slices(rank(), size(), out.count, size_of(in.dtype));
  auto* sums = static_cast<float*>(out.data);
  mesh_.run(call, {}, [&](Transfers& transfers, const RollCall&) {
    exchange_slices(
        transfers, scratch_, slices, in.data,
        [&](std::int64_t begin, std::int64_t count, std::span<const void* const> terms) {
          ordered_sum(terms, in.dtype, sums + begin, count, options.accumulate, options.epilogue,
                      begin, options.block_squares);
        });
  });
}

void Communicator::all_gather(const ConstBuffer& in, const Buffer& out, std::string_view label) {
  check_all_gather(in, out, label, rank(), size());
  const CallHeader call = next_call(Operation::kAllGather, label, in.dtype, in.count);
  const std::int64_t bytes = bytes_of(in.count, in.dtype);
  const Payload payload = inline_payload(in.data, bytes);
  mesh_.run(call, payload, [&](Transfers& transfers, const RollCall& roll_call) {
    if (bytes == 0) return;
    const Slices slices = equal_slices(rank(), size(), in.count, size_of(in.dtype));
    auto* gathered = static_cast<std::byte*>(out.data);
    std::byte* own = gathered + slices.offset(rank());
    if (own != in.data) std::memcpy(own, in.data, static_cast<std::size_t>(bytes));
    if (payload.empty()) return gather_slices(transfers, slices, gathered);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      std::memcpy(gathered + slices.offset(peer), roll_call.payload(peer),
                  static_cast<std::size_t>(bytes));
    }
  });
}

void Communicator::all_reduce(const Buffer& data, ReduceOp op, std::string_view label) {
  check_all_reduce(data, op, label);
  CallHeader call = next_call(Operation::kAllReduce, label, data.dtype, data.count);
  call.reduce_op = static_cast<std::uint8_t>(op);
  const std::int64_t bytes = bytes_of(data.count, data.dtype);
  const Payload payload = inline_payload(data.data, bytes);
  mesh_.run(call, payload, [&](Transfers& transfers, const RollCall& roll_call) {
    if (bytes == 0) return;
    if (payload.empty() && bytes > kGatherAllBytes) return reduce_in_slices(transfers, data, op);
    const Terms terms = payload.empty() ? gather_all(transfers, data) : inline_terms(roll_call);
    ordered_reduce(terms, data.dtype, op, {&data.data, 1}, data.count);
  });
}

void Communicator::reduce_in_slices(Transfers& transfers, const Buffer& data, ReduceOp op) {
  const Slices slices = near_equal_slices(rank(), size(), data.count, size_of(data.dtype));
  auto* own = static_cast<std::byte*>(data.data) + slices.offset(rank());
  exchange_slices(transfers, scratch_, slices, data.data,
                  [&](std::int64_t begin, std::int64_t count, std::span<const void* const> terms) {
                    void* const result = own + begin * slices.element_bytes;
                    ordered_reduce(terms, data.dtype, op, {&result, 1}, count);
                  });
  gather_slices(transfers, slices, data.data);
}

Communicator::Terms Communicator::gather_all(Transfers& transfers, const Buffer& data) {
  const Slices slices = equal_slices(rank(), size(), data.count, size_of(data.dtype));
  std::byte* memory = scratch_.at_least(slices.offset(size()));
  std::memcpy(memory + slices.offset(rank()), data.data, slices.bytes(rank()));
  gather_slices(transfers, slices, memory);
  const auto terms = scratch_.terms(size());
  for (int r = 0; r < size(); ++r) terms[static_cast<std::size_t>(r)] = memory + slices.offset(r);
  return terms;
}

Communicator::Terms Communicator::inline_terms(const RollCall& roll_call) {
  const auto terms = scratch_.terms(size());
  for (int r = 0; r < size(); ++r) terms[static_cast<std::size_t>(r)] = roll_call.payload(r);
  return terms;
}

void Communicator::broadcast(const Buffer& data, int root, std::string_view label) {
  check_broadcast(data, root, label, size());
  CallHeader call = next_call(Operation::kBroadcast, label, data.dtype, data.count);
  call.root = root;
  const std::int64_t bytes = bytes_of(data.count, data.dtype);
  const bool rides_along = !inline_payload(data.data, bytes).empty();
  const Payload payload = rank() == root ? inline_payload(data.data, bytes) : Payload{};
  const auto length = static_cast<std::size_t>(bytes);
  mesh_.run(call, payload, [&](Transfers& transfers, const RollCall& roll_call) {
    if (length == 0) return;
    if (rides_along) {
      if (rank() != root) std::memcpy(data.data, roll_call.payload(root), length);
    } else if (rank() != root) {
      transfers.open(root, data.data, length).receive(kGatherSlot, 0, length);
    } else {
      for (int step = 1; step < size(); ++step) {
        transfers.open(peer_at(rank(), size(), step), data.data, length)
            .send(kGatherSlot, 0, length);
      }
    }
  });
}

void Communicator::barrier(std::string_view label) {
  mesh_.run(next_call(Operation::kBarrier, label), {}, [](Transfers&, const RollCall&) {});
}

std::unique_ptr<Communicator> Communicator::split(int color, int key,
                                                  std::chrono::milliseconds patience) {
  CallHeader call = next_call(Operation::kSplit, "");
  call.color = color;
  call.key = key;
  std::vector<int> members;
  mesh_.run(call, {}, [&](Transfers&, const RollCall& roll_call) {
    members = members_of_color(roll_call.headers(), color);
  });
  if (color < 0) return nullptr;
  const auto self = std::find(members.begin(), members.end(), rank());
  MeshOptions options = mesh_.options();
  options.meeting_timeout = mesh_.options().timeout;
  options.timeout = std::max(options.timeout, patience);
  options.rank = static_cast<int>(self - members.begin());
  options.size = static_cast<int>(members.size());
  const std::string prefix = "split-" + std::to_string(call.sequence) + "-" + std::to_string(color);
  try {
    return std::make_unique<Communicator>(options, store_.child(prefix));
  } catch (const std::exception& error) {
    mesh_.fail(error.what());
    throw;
  }
}

void Communicator::abort(std::string_view why) noexcept {
  mesh_.fail("rank " + std::to_string(rank()) + " aborted: " + std::string(why));
}

void Communicator::shutdown() {
  if (mesh_.is_shut_down()) return;
  mesh_.shut_down(mesh_.describe_next(Operation::kShutdown, ""));
}

}  // namespace zero::gloo_backend
