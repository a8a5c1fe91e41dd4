#include "libzero/optim/device_payload.h"

#include <ATen/core/grad_mode.h>

#include <string>

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
  explicit AlonePayload(DeviceLane& lane) : lane_(lane) {}

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out, bool accumulate,
                      const at::Tensor& block_squares, std::string_view) override {
    cuda::OrderedSum sum;
    sum.parts = in.const_data_ptr();
    sum.dtype = *known_dtype(in.scalar_type());
    sum.accumulate = accumulate ? 1 : 0;
    sum.out = out.data_ptr<float>();
    sum.count = out.numel();
    sum.block_squares = block_squares.data_ptr<double>();
    lane_.check(lane_.kernels().ordered_sum(&sum, lane_.native()), "ordered_sum");
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out, std::string_view) override {
    if (in.data_ptr() != out.data_ptr()) out.copy_(in, /*non_blocking=*/true);
  }

 private:
  DeviceLane& lane_;
};

/// The communicator reads and writes the GPU's memory.
class DirectPayload final : public DevicePayload {
 public:
  DirectPayload(Collective& comm, DeviceLane& lane) : comm_(comm), lane_(lane) {}

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out, bool accumulate,
                      const at::Tensor& block_squares, std::string_view label) override {
    follow();
    comm_
        .reduce_scatter(const_buffer_of(in), buffer_of(out),
                        {accumulate, nullptr, label, block_squares.data_ptr<double>()})
        ->wait();
  }

  /// In place: then what is sent and what is received lie in memory of one kind, registered or not.
  void all_gather(const at::Tensor& in, const at::Tensor& out, std::string_view label) override {
    const at::Tensor own = out.narrow(0, comm_.rank() * in.numel(), in.numel());
    if (own.data_ptr() != in.data_ptr()) own.copy_(in, /*non_blocking=*/true);
    follow();
    comm_.all_gather(const_buffer_of(own), buffer_of(out), label)->wait();
  }

 private:
  /// For each call: another optimizer, rebuild()'s, may have used the communicator meanwhile.
  void follow() { comm_.follow_stream(lane_.native()); }

  Collective& comm_;
  DeviceLane& lane_;
};

/// Through pinned memory of the host. Calls have ended when they return.
class StagedPayload final : public DevicePayload {
 public:
  StagedPayload(Collective& comm, DeviceLane& lane, const PayloadSize& largest)
      : comm_(comm),
        lane_(lane),
        moved_(lane.device().type()),
        whole_(pinned(largest.bytes, at::kByte)),
        sums_(pinned(largest.slice_sums, at::kFloat)),
        squares_(pinned((largest.slice_sums + kNormBlock - 1) / kNormBlock, at::kDouble)) {}

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out, bool accumulate,
                      const at::Tensor& block_squares, std::string_view label) override {
    const at::Tensor host_in = staged(in), host_out = sums_.narrow(0, 0, out.numel());
    const at::Tensor squares = squares_.narrow(0, 0, block_squares.numel());
    host_in.copy_(in, /*non_blocking=*/true);
    if (accumulate) host_out.copy_(out, /*non_blocking=*/true);
    wait("gradients on their way to the host", label);
    comm_
        .reduce_scatter(const_buffer_of(host_in), buffer_of(host_out),
                        {accumulate, nullptr, label, squares.data_ptr<double>()})
        ->wait();
    out.copy_(host_out, /*non_blocking=*/true);
    block_squares.copy_(squares, /*non_blocking=*/true);
    wait("sums of gradients on their way to the GPU", label);
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out, std::string_view label) override {
    const at::Tensor host_out = staged(out);
    const at::Tensor host_in = host_out.narrow(0, comm_.rank() * in.numel(), in.numel());
    host_in.copy_(in, /*non_blocking=*/true);
    wait("parameters on their way to the host", label);
    comm_.all_gather(const_buffer_of(host_in), buffer_of(host_out), label)->wait();
    out.copy_(host_out, /*non_blocking=*/true);
    wait("parameters on their way to the GPU", label);
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

  void wait(std::string_view what, std::string_view label) {
    moved_.record(lane_.stream());
    lane_.await(moved_, std::string(what) + " [" + std::string(label) + "]");
  }

  Collective& comm_;
  DeviceLane& lane_;
  c10::Event moved_;
  at::Tensor whole_;
  at::Tensor sums_;
  at::Tensor squares_;
};

}  // namespace

std::unique_ptr<DevicePayload> make_device_payload(Collective& comm, DeviceLane& lane,
                                                   const PayloadSize& largest) {
  if (comm.size() == 1) return std::make_unique<AlonePayload>(lane);
  if (comm.takes_device_memory()) return std::make_unique<DirectPayload>(comm, lane);
  return std::make_unique<StagedPayload>(comm, lane, largest);
}

}  // namespace zero
