#include <algorithm>
#include <cstring>

#include "libzero/kernels/adamw.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"
#include "libzero/kernels/sum.h"
#include "tests/gpu_check/device_data.h"
#include "tests/gpu_check/parts.h"

namespace zero::gpu_check {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
// What is compared; odd, so that the ends of blocks are met.
constexpr std::int64_t kCompared = 100'003;

std::string text(DType dtype) {
  return std::string(name_of(dtype));
}

const std::string kPrepareName = "decision and constants of a step";
std::string sum_name(DType dtype, int ranks) {
  return "sum of " + std::to_string(ranks) + " x " + text(dtype) + " with its squares";
}
std::string cast_name(DType from, DType to) {
  return "cast " + text(from) + " to " + text(to);
}
std::string adamw_name(DType gradient, DType copy) {
  return "AdamW, gradient " + text(gradient) + ", parameter " + text(copy);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
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

  void adamw(DType gradient, DType copy) {
    const bool right = step_is_right(gradient, copy);
    const std::int64_t n = settings_.elements;
    const std::int64_t copy_bytes = copy == DType::kFloat32 ? 0 : 2;
    const nccl::DeviceMemory g(lane_.apis(), n * size_of(gradient));
    const nccl::DeviceMemory p(lane_.apis(), n * 4), m(lane_.apis(), n * 4), v(lane_.apis(), n * 4);
    const nccl::DeviceMemory low(lane_.apis(), n * 2);
    const DeviceData<cuda::StepState> state(lane_, {applied_state()});
    const DeviceData<AdamWConstants> constants(lane_, {adamw_constants({}, 7)});
    const cuda::AdamWStep args{state.get(),
                               constants.get(),
                               g.get(),
                               gradient,
                               static_cast<float*>(p.get()),
                               static_cast<float*>(m.get()),
                               static_cast<float*>(v.get()),
                               copy_bytes == 0 ? nullptr : low.get(),
                               copy,
                               n};
    const double seconds = lane_.time(settings_.rounds, [&] { launch_adamw(args); });
    const auto bytes = static_cast<double>(n * (size_of(gradient) + 24 + copy_bytes));
    report_.rate(adamw_name(gradient, copy), bytes, seconds, right);
  }

  void prepare() {
    cuda::StepState host;
    host.sum_of_squares = 12345.678;
    host.loss_scale = 1024;
    host.weight_sum = 12;
    host.applied_steps = 70'000;
    const DeviceData<cuda::StepState> state(lane_, {host});
    const DeviceData<AdamWHyperparameters> groups(lane_, {AdamWHyperparameters()});
    const DeviceData<AdamWConstants> constants(lane_, {AdamWConstants()});
    const cuda::PrepareStep args{state.get(), 1e-3, groups.get(), constants.get(), 1};
    nccl::check_cuda(*lane_.apis(), lane_.apis()->kernels.prepare_step(&args, lane_.stream()),
                     "The kernel prepare_step");
    lane_.wait();
    const std::vector<AdamWConstants> expected = {adamw_constants({}, 70'001)};
    report_.rate(kPrepareName, 0, 0,
                 state.read()[0].apply == 1 && same_bits(constants.read(), expected));
  }

 private:
  static cuda::StepState applied_state() {
    cuda::StepState state;
    state.apply = 1;
    state.gradient_factor = 0.37f;
    return state;
  }

  void launch_sum(const cuda::OrderedSum& args) {
    nccl::check_cuda(*lane_.apis(), lane_.apis()->kernels.ordered_sum(&args, lane_.stream()),
                     "The kernel ordered_sum");
  }
  void launch_cast(const cuda::Cast& args) {
    nccl::check_cuda(*lane_.apis(), lane_.apis()->kernels.cast(&args, lane_.stream()),
                     "The kernel cast");
  }
  void launch_adamw(const cuda::AdamWStep& args) {
    nccl::check_cuda(*lane_.apis(), lane_.apis()->kernels.adamw(&args, lane_.stream()),
                     "The kernel adamw");
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

  bool step_is_right(DType gradient, DType copy) {
    const bool has_copy = copy != DType::kFloat32;
    const auto g = as_type(values(kCompared, 7), gradient);
    std::vector<float> p = values(kCompared, 8), m = values(kCompared, 9),
                       v = values(kCompared, 10);
    for (float& value : v) value = value < 0 ? -value : value;
    std::vector<std::uint16_t> low(static_cast<std::size_t>(kCompared));
    const DeviceData<std::byte> on_g(lane_, g);
    const DeviceData<float> on_p(lane_, p), on_m(lane_, m), on_v(lane_, v);
    const DeviceData<std::uint16_t> on_low(lane_, low);
    const DeviceData<cuda::StepState> state(lane_, {applied_state()});
    const AdamWConstants constants = adamw_constants({}, 7);
    const DeviceData<AdamWConstants> on_constants(lane_, {constants});
    adamw_step(constants, {g.data(), gradient, 0.37f, p.data(), m.data(), v.data(),
                           has_copy ? low.data() : nullptr, copy, kCompared});
    launch_adamw({state.get(), on_constants.get(), on_g.get(), gradient, on_p.get(), on_m.get(),
                  on_v.get(), has_copy ? on_low.get() : nullptr, copy, kCompared});
    lane_.wait();
    return same_bits(on_p.read(), p) && same_bits(on_m.read(), m) && same_bits(on_v.read(), v) &&
           same_bits(on_low.read(), low);
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
  for (const DType gradient : kFloats) {
    for (const DType copy : kFloats) {
      report.attempt(adamw_name(gradient, copy), [&] { kernels.adamw(gradient, copy); });
    }
  }
  report.attempt(kPrepareName, [&] { kernels.prepare(); });
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
