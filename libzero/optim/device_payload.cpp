#include "libzero/optim/device_payload.h"

#include <ATen/core/grad_mode.h>

#include <deque>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "libzero/kernels/block_norm.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {
namespace {

Buffer buffer_of(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.numel(), *known_dtype(tensor.scalar_type())};
}

ConstBuffer const_buffer_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.numel(), *known_dtype(tensor.scalar_type())};
}

/// One rank.
class AlonePayload final : public DevicePayload {
 public:
  void reduce_scatter(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                      bool accumulate, const at::Tensor& block_squares, std::string_view) override {
    cuda::OrderedSum sum;
    sum.parts = in.const_data_ptr();
    sum.dtype = *known_dtype(in.scalar_type());
    sum.accumulate = accumulate ? 1 : 0;
    sum.out = out.data_ptr<float>();
    sum.count = out.numel();
    sum.block_squares = block_squares.data_ptr<double>();
    lane.check(lane.kernels().ordered_sum(&sum, lane.native()), "ordered_sum");
  }

  void all_gather(DeviceLane&, const at::Tensor& in, const at::Tensor& out,
                  std::string_view) override {
    if (in.data_ptr() != out.data_ptr()) out.copy_(in, /*non_blocking=*/true);
  }
};

/// The communicator reads and writes the GPU's memory.
class DirectPayload final : public DevicePayload {
 public:
  DirectPayload(Collective& comm, bool any_order) : comm_(comm), any_order_(any_order) {}

  ~DirectPayload() override {
    try {
      settle();
    } catch (...) {  // nobody is interested any more
    }
  }

  void reduce_scatter(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                      bool accumulate, const at::Tensor& block_squares,
                      std::string_view label) override {
    issue(lane, label, kMostReductions, [&](std::string_view kept) {
      ReduceScatterOptions options{accumulate, nullptr, kept, block_squares.data_ptr<double>()};
      options.any_order = any_order_;
      return comm_.reduce_scatter(const_buffer_of(in), buffer_of(out), std::move(options));
    });
  }

  /// In place: then what is sent and what is received lie in memory of one kind, registered or not.
  void all_gather(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                  std::string_view label) override {
    const at::Tensor own = out.narrow(0, comm_.rank() * in.numel(), in.numel());
    if (own.data_ptr() != in.data_ptr()) own.copy_(in, /*non_blocking=*/true);
    issue(lane, label, kAnyNumber, [&](std::string_view kept) {
      return comm_.all_gather(const_buffer_of(own), buffer_of(out), kept);
    });
  }

  void settle() override {
    std::exception_ptr first;
    while (!calls_.empty()) {
      try {
        await_oldest();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    launches_ = 0;
    if (first) std::rethrow_exception(first);
  }

  void make_room_for_launch() override {
    if (++launches_ > kMostLaunches) settle();
  }

  bool sums_in_rank_order() const noexcept override { return !any_order_; }

 private:
  // Of reductions: enough that the GPU does not wait for the host; who reads gradients is near.
  static constexpr std::size_t kMostReductions = 2;
  static constexpr std::size_t kMostLaunches = 256;
  static constexpr std::size_t kLaunchesOfACall = 8;  // events, the communicator's own
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

  struct Call {
    std::string label;  // which the communicator may look at until the end
    WorkPtr work;
  };

  /// Afterwards `most` calls are on their way at most. Waits when the ranks have just met in this
  /// call: so all begin to wait at the same time, and who is late is not taken for dead.
  template <class Issue>
  void issue(DeviceLane& lane, std::string_view label, std::size_t most, Issue make) {
    launches_ += kLaunchesOfACall;
    calls_.push_back({std::string(label), nullptr});
    comm_.follow_stream(lane.native());  // each time: rebuild()'s successor uses it as well
    try {
      calls_.back().work = make(std::string_view(calls_.back().label));
    } catch (...) {
      calls_.pop_back();
      settle();  // what went wrong before is the reason
      throw;
    }
    if (!calls_.back().work->lead_stream(lane.native())) return settle();
    while (calls_.size() > most) await_oldest();
  }

  void await_oldest() {
    try {
      calls_.front().work->wait();
    } catch (...) {
      calls_.pop_front();
      throw;
    }
    calls_.pop_front();
  }

  Collective& comm_;
  const bool any_order_;
  std::deque<Call> calls_;    // on their way
  std::size_t launches_ = 0;  // since the last settle()
};

/// Through pinned memory of the host. Calls have ended when they return.
class StagedPayload final : public DevicePayload {
 public:
  StagedPayload(Collective& comm, c10::DeviceType type, const PayloadSize& largest)
      : comm_(comm),
        moved_(type),
        whole_(pinned(largest.bytes, at::kByte)),
        sums_(pinned(largest.slice_sums, at::kFloat)),
        squares_(pinned((largest.slice_sums + kNormBlock - 1) / kNormBlock, at::kDouble)) {}

  void reduce_scatter(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                      bool accumulate, const at::Tensor& block_squares,
                      std::string_view label) override {
    const at::Tensor host_in = staged(in), host_out = sums_.narrow(0, 0, out.numel());
    const at::Tensor squares = squares_.narrow(0, 0, block_squares.numel());
    host_in.copy_(in, /*non_blocking=*/true);
    if (accumulate) host_out.copy_(out, /*non_blocking=*/true);
    wait(lane, "gradients on their way to the host", label);
    comm_
        .reduce_scatter(const_buffer_of(host_in), buffer_of(host_out),
                        {accumulate, nullptr, label, squares.data_ptr<double>()})
        ->wait();
    out.copy_(host_out, /*non_blocking=*/true);
    block_squares.copy_(squares, /*non_blocking=*/true);
    wait(lane, "sums of gradients on their way to the GPU", label);
  }

  void all_gather(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                  std::string_view label) override {
    const at::Tensor host_out = staged(out);
    const at::Tensor host_in = host_out.narrow(0, comm_.rank() * in.numel(), in.numel());
    host_in.copy_(in, /*non_blocking=*/true);
    wait(lane, "parameters on their way to the host", label);
    comm_.all_gather(const_buffer_of(host_in), buffer_of(host_out), label)->wait();
    out.copy_(host_out, /*non_blocking=*/true);
    wait(lane, "parameters on their way to the GPU", label);
  }

  std::int64_t host_bytes() const noexcept override {
    return static_cast<std::int64_t>(whole_.nbytes() + sums_.nbytes() + squares_.nbytes());
  }

 private:
  static at::Tensor pinned(std::int64_t elements, at::ScalarType type) {
    return pinned_tensor({elements}, type, "what travels between a GPU and other ranks");
  }

  at::Tensor staged(const at::Tensor& like) const {
    return whole_.narrow(0, 0, static_cast<std::int64_t>(like.nbytes())).view(like.scalar_type());
  }

  void wait(DeviceLane& lane, std::string_view what, std::string_view label) {
    moved_.record(lane.stream());
    lane.await(moved_, std::string(what) + " [" + std::string(label) + "]");
  }

  Collective& comm_;
  c10::Event moved_;
  at::Tensor whole_;
  at::Tensor sums_;
  at::Tensor squares_;
};

}  // namespace

std::unique_ptr<DevicePayload> make_device_payload(Collective& comm, c10::DeviceType type,
                                                   const PayloadSize& largest, bool any_order) {
  if (comm.size() == 1) return std::make_unique<AlonePayload>();
  if (comm.takes_device_memory()) return std::make_unique<DirectPayload>(comm, any_order);
  return std::make_unique<StagedPayload>(comm, type, largest);
}

}  // namespace zero
