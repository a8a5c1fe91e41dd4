#include "backends/shm/communicator.h"

#include <cstring>

#include "libzero/base/error.h"
#include "libzero/collective/check_calls.h"

namespace zero::shm {
namespace {

using Payload = std::span<const std::byte>;

/// What rides along with the header, if it is small enough to. A world of one has nothing else to
/// move its payload with, and nobody to move it to.
Payload inline_payload(const void* data, std::int64_t bytes) {
  if (bytes > static_cast<std::int64_t>(Message::kInlineBytes)) return {};
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)};
}

void copy(void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

CallHeader Communicator::next_call(Operation operation, std::string_view label, DType dtype,
                                   std::int64_t count) const {
  check_not_shut_down(circle_->is_shut_down(), name_of(operation), label);
  return circle_->next_call(operation, label, dtype, count);
}

WorkPtr Communicator::run(const CallHeader& call, Payload inline_payload, Circle::Body body) {
  try {
    circle_->run(call, inline_payload, body);
    return finished_work();
  } catch (...) {
    return failed_work(std::current_exception());
  }
}

WorkPtr Communicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) {
  check_not_shut_down(circle_->is_shut_down(), "reduce_scatter", options.label);
  check_reduce_scatter(in, out, options.label, size());
  const CallHeader call = next_call(Operation::kReduceScatter, options.label, in.dtype, out.count);
  const Slices slices = equal_slices(size(), out.count, size_of(in.dtype));
  const Payload payload = inline_payload(in.data, in.count * size_of(in.dtype));
  auto* const sums = static_cast<float*>(out.data);
  const auto sum = [&](std::int64_t begin, std::int64_t count, Parts terms) {
    ordered_sum(terms, in.dtype, sums + begin, count, options.accumulate, options.epilogue, begin,
                options.block_squares);
  };
  return run(call, payload, [&](Rows& rows, const RollCall& roll_call) {
    if (out.count == 0) return;
    if (size() == 1) {
      const void* const term = in.data;
      return sum(0, out.count, {&term, 1});
    }
    if (payload.empty()) return rows.exchange(slices, in.data, sum);
    sum(0, out.count, inline_terms(roll_call, slices.offset(rank())));
  });
}

WorkPtr Communicator::all_gather(ConstBuffer in, Buffer out, std::string_view label) {
  check_not_shut_down(circle_->is_shut_down(), "all_gather", label);
  check_all_gather(in, out, label, rank(), size());
  const CallHeader call = next_call(Operation::kAllGather, label, in.dtype, in.count);
  const std::int64_t bytes = in.count * size_of(in.dtype);
  const Payload payload = inline_payload(in.data, bytes);
  auto* const whole = static_cast<std::byte*>(out.data);
  return run(call, payload, [&](Rows& rows, const RollCall& roll_call) {
    if (bytes == 0) return;
    if (size() > 1 && payload.empty()) {
      return rows.gather(equal_slices(size(), in.count, size_of(in.dtype)), in.data, whole);
    }
    copy(whole + rank() * bytes, in.data, bytes);
    for (int r = 0; r < size(); ++r) {
      if (r != rank()) copy(whole + r * bytes, roll_call.payload(r), bytes);
    }
  });
}

WorkPtr Communicator::all_reduce(Buffer data, ReduceOp op, std::string_view label) {
  check_not_shut_down(circle_->is_shut_down(), "all_reduce", label);
  check_all_reduce(data, op, label);
  CallHeader call = next_call(Operation::kAllReduce, label, data.dtype, data.count);
  call.reduce_op = static_cast<std::uint8_t>(op);
  const Payload payload = inline_payload(data.data, data.count * size_of(data.dtype));
  return run(call, payload, [&](Rows& rows, const RollCall& roll_call) {
    if (data.count == 0) return;
    if (size() > 1 && payload.empty()) return reduce_in_slices(rows, data, op);
    const void* const own = data.data;
    const Parts terms = size() == 1 ? Parts(&own, 1) : inline_terms(roll_call, 0);
    ordered_reduce(terms, data.dtype, op, {&data.data, 1}, data.count);
  });
}

void Communicator::reduce_in_slices(Rows& rows, const Buffer& data, ReduceOp op) const {
  const Slices slices = near_equal_slices(size(), data.count, size_of(data.dtype));
  std::byte* const own = static_cast<std::byte*>(data.data) + slices.offset(rank());
  // In place: of this slice every rank but its owner reads its own copy only, and has shown the
  // others all that they need of the rest before it is overwritten.
  rows.exchange(slices, data.data, [&](std::int64_t begin, std::int64_t count, Parts terms) {
    void* const result = own + begin * slices.element_bytes;
    ordered_reduce(terms, data.dtype, op, {&result, 1}, count);
  });
  rows.gather(slices, own, data.data);
}

Parts Communicator::inline_terms(const RollCall& roll_call, std::size_t offset) {
  for (int r = 0; r < size(); ++r)
    terms_[static_cast<std::size_t>(r)] = roll_call.payload(r) + offset;
  return terms_;
}

WorkPtr Communicator::broadcast(Buffer data, int root, std::string_view label) {
  check_not_shut_down(circle_->is_shut_down(), "broadcast", label);
  check_broadcast(data, root, label, size());
  CallHeader call = next_call(Operation::kBroadcast, label, data.dtype, data.count);
  call.root = root;
  const std::int64_t bytes = data.count * size_of(data.dtype);
  const bool rides_along = !inline_payload(data.data, bytes).empty();
  const Payload payload = rank() == root ? inline_payload(data.data, bytes) : Payload{};
  return run(call, payload, [&](Rows& rows, const RollCall& roll_call) {
    if (bytes == 0 || size() == 1) return;
    if (!rides_along) return rows.broadcast(root, data.data, static_cast<std::size_t>(bytes));
    if (rank() != root) copy(data.data, roll_call.payload(root), bytes);
  });
}

WorkPtr Communicator::barrier(std::string_view label) {
  return run(next_call(Operation::kBarrier, label), {}, [](Rows&, const RollCall&) {});
}

void Communicator::abort(std::string_view why) noexcept {
  circle_->abort("rank " + std::to_string(rank()) + " aborted: " + std::string(why));
}

void Communicator::shutdown() {
  if (circle_->is_shut_down()) return;
  if (circle_->failed()) {
    circle_->leave_dead();
    return;
  }
  try {
    circle_->shut_down(next_call(Operation::kShutdown, ""));
  } catch (const CommError&) {
    circle_->leave_dead();
    throw;
  }
}

}  // namespace zero::shm
