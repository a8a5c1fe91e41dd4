#include "libzero/kernels/adamw.h"
#include "libzero/kernels/ema.h"
#include "libzero/kernels/sgd.h"
#include "libzero/optim/decision.h"
#include "libzero/optim/exact_sum.h"
#include "tests/gpu_check/kernel_check.h"

namespace zero::gpu_check {
namespace {

constexpr float kFactor = 0.37f;

std::vector<float> positive(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result = values(count, seed);
  for (float& value : result) value = value < 0 ? -value : value;
  return result;
}

cuda::StepState applied_state() {
  cuda::StepState state;
  state.apply = 1;
  state.gradient_factor = kFactor;
  return state;
}

/// Gradient, master, two arrays that a rule keeps, and a parameter of low precision; on the CPU.
struct Arrays {
  Arrays(DType gradient, std::int64_t count)
      : g(as_type(values(count, 7), gradient)),
        p(values(count, 8)),
        a(values(count, 9)),
        b(positive(count, 10)),
        low(static_cast<std::size_t>(count)) {}

  std::vector<std::byte> g;
  std::vector<float> p, a, b;
  std::vector<std::uint16_t> low;
};

/// The same on the GPU.
struct OnGpu {
  OnGpu(Lane& lane, const Arrays& from)
      : g(lane, from.g), p(lane, from.p), a(lane, from.a), b(lane, from.b), low(lane, from.low) {}

  bool same_as(const Arrays& expected) const {
    return same_bits(p.read(), expected.p) && same_bits(a.read(), expected.a) &&
           same_bits(b.read(), expected.b) && same_bits(low.read(), expected.low);
  }

  DeviceData<std::byte> g;
  DeviceData<float> p, a, b;
  DeviceData<std::uint16_t> low;
};

/// Room for them, for rates.
struct Room {
  Room(const Lane& lane, DType gradient, std::int64_t count)
      : g(lane.apis(), count * size_of(gradient)),
        p(lane.apis(), count * 4),
        a(lane.apis(), count * 4),
        b(lane.apis(), count * 4),
        low(lane.apis(), count * 2) {}

  nccl::DeviceMemory g, p, a, b, low;
};

class StepCheck {
 public:
  StepCheck(Lane& lane, const Settings& settings, Report& report)
      : lane_(lane), settings_(settings), report_(report), state_(lane, {applied_state()}) {}

  void adamw(DType gradient, DType copy) {
    const std::string name = "AdamW, gradient " + text(gradient) + ", parameter " + text(copy);
    report_.attempt(name, [&] {
      const bool has_copy = copy != DType::kFloat32;
      const AdamWConstants constants = adamw_constants({}, 7);
      const DeviceData<AdamWConstants> on_gpu(lane_, {constants});
      Arrays arrays(gradient, kCompared);
      const OnGpu gpu(lane_, arrays);
      adamw_step(constants,
                 {arrays.g.data(), gradient, kFactor, arrays.p.data(), arrays.a.data(),
                  arrays.b.data(), has_copy ? arrays.low.data() : nullptr, copy, kCompared});
      launch_adamw(on_gpu, gpu, gradient, copy, kCompared);
      lane_.wait();
      const bool right = gpu.same_as(arrays);
      const std::int64_t n = settings_.elements;
      const Room room(lane_, gradient, n);
      const double seconds =
          lane_.time(settings_.rounds, [&] { launch_adamw(on_gpu, room, gradient, copy, n); });
      report_.rate(name, bytes_of(n, gradient, 24, has_copy), seconds, right);
    });
  }

  void sgd(DType gradient, DType copy) {
    const std::string name = "SGD, gradient " + text(gradient) + ", parameter " + text(copy);
    report_.attempt(name, [&] {
      const bool has_copy = copy != DType::kFloat32;
      const SGDConstants constants =
          sgd_constants({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
      const DeviceData<SGDConstants> on_gpu(lane_, {constants});
      Arrays arrays(gradient, kCompared);
      const OnGpu gpu(lane_, arrays);
      sgd_step(constants, {arrays.g.data(), gradient, kFactor, arrays.p.data(), arrays.a.data(),
                           has_copy ? arrays.low.data() : nullptr, copy, kCompared});
      cuda::SGDStep args;
      args.state = state_.get();
      args.constants = on_gpu.get();
      args.gradient = gpu.g.get();
      args.gradient_dtype = gradient;
      args.master = gpu.p.get();
      args.momentum_buffer = gpu.a.get();
      args.low_precision = has_copy ? gpu.low.get() : nullptr;
      args.low_precision_dtype = copy;
      args.count = kCompared;
      launch(lane_, lane_.apis()->kernels.sgd, args, "The kernel sgd");
      lane_.wait();
      report_.rate(name, 0, 0, gpu.same_as(arrays));
    });
  }

  void average() {
    const std::string name = "average of weights";
    report_.attempt(name, [&] {
      Arrays arrays(DType::kFloat32, kCompared);
      const OnGpu gpu(lane_, arrays);
      ema_step(0.125f, arrays.p.data(), arrays.a.data(), kCompared);
      const cuda::Average args{state_.get(), 0.125f, gpu.p.get(), gpu.a.get(), kCompared};
      launch(lane_, lane_.apis()->kernels.average, args, "The kernel average");
      lane_.wait();
      report_.rate(name, 0, 0, gpu.same_as(arrays));
    });
  }

  void exact_sum() {
    const std::string name = "exact sum of the norm's blocks";
    report_.attempt(name, [&] {
      const std::vector<float> some = positive(kCompared, 11);
      const std::vector<double> terms(some.begin(), some.end());
      const DeviceData<double> on_gpu(lane_, terms);
      const DeviceData<std::int64_t> words(lane_, std::vector<std::int64_t>(kExactWords + 1));
      launch(lane_, lane_.apis()->kernels.sum_exactly,
             cuda::SumExactly{on_gpu.get(), kCompared, words.get()}, "The kernel sum_exactly");
      lane_.wait();
      ExactSum expected, actual;
      expected.add(terms);
      std::vector<std::int64_t> sums = words.read();
      const bool is_finite = sums.back() == 0;
      sums.pop_back();
      actual.merge(sums);  // does the carries
      report_.rate(name, 0, 0, is_finite && actual.value() == expected.value());
    });
  }

  void prepare() {
    const std::string name = "decision and constants of a step";
    report_.attempt(name, [&] {
      cuda::StepState host;
      host.sum_of_squares = 12345.678;
      host.loss_scale = 1024;
      host.weight_sum = 12;
      host.applied_steps = 70'000;
      const DeviceData<cuda::StepState> state(lane_, {host});
      const DeviceData<AdamWHyperparameters> groups(lane_, {AdamWHyperparameters()});
      const DeviceData<AdamWConstants> constants(lane_, {AdamWConstants()});
      launch(lane_, lane_.apis()->kernels.prepare_step,
             cuda::PrepareStep{state.get(), 1e-3, groups.get(), constants.get(), 1},
             "The kernel prepare_step");
      lane_.wait();
      const std::vector<AdamWConstants> expected = {adamw_constants({}, 70'001)};
      const Decision decision =
          decide({host.sum_of_squares, true, host.loss_scale, host.weight_sum, 1e-3});
      const cuda::StepState decided = state.read()[0];
      report_.rate(name, 0, 0,
                   decided.apply == 1 && decided.applied_steps == 70'001 &&
                       decided.grad_norm == decision.grad_norm &&
                       decided.clip_factor == decision.clip_factor &&
                       decided.gradient_factor == decision.gradient_factor &&
                       same_bits(constants.read(), expected));
    });
  }

 private:
  template <class There>
  void launch_adamw(const DeviceData<AdamWConstants>& constants, const There& arrays,
                    DType gradient, DType copy, std::int64_t count) {
    cuda::AdamWStep args;
    args.state = state_.get();
    args.constants = constants.get();
    args.gradient = arrays.g.get();
    args.gradient_dtype = gradient;
    args.master = static_cast<float*>(arrays.p.get());
    args.exp_avg = static_cast<float*>(arrays.a.get());
    args.exp_avg_sq = static_cast<float*>(arrays.b.get());
    args.low_precision = copy == DType::kFloat32 ? nullptr : arrays.low.get();
    args.low_precision_dtype = copy;
    args.count = count;
    launch(lane_, lane_.apis()->kernels.adamw, args, "The kernel adamw");
  }

  static double bytes_of(std::int64_t count, DType gradient, std::int64_t state, bool has_copy) {
    return static_cast<double>(count * (size_of(gradient) + state + (has_copy ? 2 : 0)));
  }

  Lane& lane_;
  const Settings& settings_;
  Report& report_;
  const DeviceData<cuda::StepState> state_;
};

}  // namespace

void check_step_kernels(Lane& lane, const Settings& settings, Report& report) {
  StepCheck check(lane, settings, report);
  for (const DType gradient : kFloats) {
    for (const DType copy : kFloats) check.adamw(gradient, copy);
  }
  for (const DType copy : kFloats) check.sgd(DType::kFloat32, copy);
  check.average();
  check.exact_sum();
  check.prepare();
}

}  // namespace zero::gpu_check
