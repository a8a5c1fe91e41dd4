#include <algorithm>

#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"
#include "libzero/kernels/sum.h"
#include "tests/gpu_check/kernel_check.h"

namespace zero::gpu_check {
namespace {

std::string sum_name(DType dtype, int ranks) {
  return "sum of " + std::to_string(ranks) + " x " + text(dtype) + " with its squares";
}
std::string cast_name(DType from, DType to) {
  return "cast " + text(from) + " to " + text(to);
}
class KernelCheck {
 public:
  KernelCheck(Lane& lane, const Settings& settings, Report& report)
      : lane_(lane), settings_(settings), report_(report) {}

  void ordered_sum(DType dtype, int ranks) {
    const bool right = sums_are_right(dtype, ranks);
    const std::int64_t n = std::max<std::int64_t>(settings_.elements / ranks, 1);
    const nccl::DeviceMemory parts(lane_.apis(), n * ranks * size_of(dtype));
    const nccl::DeviceMemory out(lane_.apis(), n * 4);
    const nccl::DeviceMemory squares(lane_.apis(), (n / kNormBlock + 1) * 8);
    cuda::OrderedSum args;
    args.parts = parts.get();
    args.stride = n;
    args.ranks = ranks;
    args.dtype = dtype;
    args.accumulate = 1;
    args.out = static_cast<float*>(out.get());
    args.count = n;
    args.block_squares = static_cast<double*>(squares.get());
    const double seconds = lane_.time(settings_.rounds, [&] { launch_sum(args); });
    const auto bytes = static_cast<double>(n * (ranks * size_of(dtype) + 8) + n / 8);
    report_.rate(sum_name(dtype, ranks), bytes, seconds, right);
  }

  void cast(DType from, DType to) {
    const auto given = as_type(values(kCompared, 3), from);
    std::vector<std::byte> expected(static_cast<std::size_t>(kCompared * size_of(to)));
    cast_elements(given.data(), from, expected.data(), to, kCompared);
    const DeviceData<std::byte> in(lane_, given);
    const DeviceData<std::byte> out(lane_, std::vector<std::byte>(expected.size()));
    launch_cast({in.get(), from, out.get(), to, kCompared});
    lane_.wait();
    const bool right = same_bits(out.read(), expected);
    const std::int64_t n = settings_.elements;
    const nccl::DeviceMemory large_in(lane_.apis(), n * size_of(from));
    const nccl::DeviceMemory large_out(lane_.apis(), n * size_of(to));
    const double seconds = lane_.time(settings_.rounds, [&] {
      launch_cast({large_in.get(), from, large_out.get(), to, n});
    });
    report_.rate(cast_name(from, to), static_cast<double>(n * (size_of(from) + size_of(to))),
                 seconds, right);
  }

 private:
  void launch_sum(const cuda::OrderedSum& args) {
    launch(lane_, lane_.apis()->kernels.ordered_sum, args, "The kernel ordered_sum");
  }
  void launch_cast(const cuda::Cast& args) {
    launch(lane_, lane_.apis()->kernels.cast, args, "The kernel cast");
  }
  bool sums_are_right(DType dtype, int ranks) {
    const auto given = as_type(values(kCompared * ranks, 5), dtype);
    std::vector<float> expected = values(kCompared, 6);
    std::vector<double> expected_squares((kCompared + kNormBlock - 1) / kNormBlock);
    const DeviceData<std::byte> parts(lane_, given);
    const DeviceData<float> out(lane_, expected);
    const DeviceData<double> squares(lane_, expected_squares);
    std::vector<const void*> at;
    for (int r = 0; r < ranks; ++r) at.push_back(given.data() + r * kCompared * size_of(dtype));
    sum_parts(at, dtype, expected.data(), kCompared, true, expected_squares.data());
    cuda::OrderedSum args;
    args.parts = parts.get();
    args.stride = kCompared;
    args.ranks = ranks;
    args.dtype = dtype;
    args.accumulate = 1;
    args.out = out.get();
    args.count = kCompared;
    args.block_squares = squares.get();
    launch_sum(args);
    lane_.wait();
    return same_bits(out.read(), expected) && same_bits(squares.read(), expected_squares);
  }

  Lane& lane_;
  const Settings& settings_;
  Report& report_;
};

}  // namespace

void check_kernels(const Apis& apis, const Settings& settings, Report& report) {
  const nccl::OnDevice here(*apis, 0);
  Lane lane(apis);
  KernelCheck kernels(lane, settings, report);
  check_step_kernels(lane, settings, report);
  for (const DType dtype : kFloats) {
    for (const int ranks : {1, 2, 4, 8}) {
      report.attempt(sum_name(dtype, ranks), [&] { kernels.ordered_sum(dtype, ranks); });
    }
  }
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      if (from != to) report.attempt(cast_name(from, to), [&] { kernels.cast(from, to); });
    }
  }
}

}  // namespace zero::gpu_check
