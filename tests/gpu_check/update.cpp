#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/gpu_check/fused_adamw.h"
#include "tests/gpu_check/samples.h"
#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

constexpr double kLr = 1e-3, kWeightDecay = 0.1, kClipNorm = 1.0;
constexpr int kWarmUp = 3;
constexpr std::size_t kMatrix = 2;  // the first parameter that is one
// Of a parameter, both optimizers together: 18 here, 18 there, the gradient that both are given.
constexpr std::int64_t kBytes = 38;

struct Times {
  Samples step, fused, with_backward, fused_with_copy;
};

/// Both optimizers on parameters of their own, which begin alike and get the same gradients.
class Duel {
 public:
  Duel(const Machine& machine, std::int64_t count)
      : device_(machine.device(0)),
        ours_(parameters_of(shapes_of(count), at::kBFloat16, device_)),
        theirs_(parameters_of(shapes_of(count), at::kBFloat16, device_)),
        beginning_(ours_[kMatrix].tensor.detach().clone()),
        gradients_(gradients_of(ours_, 1)),
        optimizer_(ours_, {}, AdamWOptions(kLr).weight_decay(kWeightDecay),
                   machine.options().clip_norm(kClipNorm), alone()),
        fused_(theirs_, kLr, kWeightDecay, kClipNorm) {}

  void round(Times& times) {
    const double backward = time([&] { optimizer_.backward(loss_with(ours_, gradients_)); });
    const double step = time([&] { optimizer_.step(); });
    std::vector<at::Tensor> copies;  // what backward() does for us, the way autograd does it
    const double copying = time([&] {
      for (const at::Tensor& gradient : gradients_) copies.push_back(gradient.clone());
    });
    copies.clear();
    const double fused = time([&] { fused_.step(gradients_); });
    times.step.add(step);
    times.fused.add(fused);
    times.with_backward.add(backward + step);
    times.fused_with_copy.add(copying + fused);
  }

  std::int64_t count() const { return numel_of(ours_); }

  /// The largest difference between the two; infinite where there is a NaN.
  double difference() const {
    const at::NoGradGuard no_grad;
    double largest = 0;
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      const at::Tensor a = ours_[i].tensor.to(at::kFloat), b = theirs_[i].tensor.to(at::kFloat);
      const double here = (a - b).abs().max().item<double>();
      largest = here <= largest ? largest : std::isnan(here) ? INFINITY : here;
    }
    return largest;
  }

  /// The largest change since the beginning, of the first matrix.
  double change() const {
    const at::NoGradGuard no_grad;
    return (ours_[kMatrix].tensor - beginning_).abs().max().item<double>();
  }

  void leave() { optimizer_.shutdown(); }

 private:
  template <class Body>
  double time(Body body) const {
    synchronize(device_);
    const auto start = std::chrono::steady_clock::now();
    body();
    synchronize(device_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  c10::Device device_;
  std::vector<NamedTensor> ours_, theirs_;
  at::Tensor beginning_;
  std::vector<at::Tensor> gradients_;
  Optimizer optimizer_;
  FusedAdamW fused_;
};

std::string times_over(const Samples& other, const Samples& mine) {
  return number(other.median() / mine.median(), 2) + " x (best against best " +
         number(other.best() / mine.best(), 2) + ")";
}

}  // namespace

void check_update(const Machine& machine, const Settings& settings, Report& report) {
  const std::int64_t fits = machine.free_bytes() / 10 * 9 / kBytes;
  Duel duel(machine, std::min(settings.parameters, fits));
  const std::string of = ", " + number(static_cast<double>(duel.count()) * 1e-6, 1) +
                         " M bfloat16 parameters with fp32 masters";
  Times warm_up, times;
  for (int i = 0; i < kWarmUp; ++i) duel.round(warm_up);
  for (int i = 0; i < settings.rounds; ++i) duel.round(times);
  duel.leave();
  report.note("step()" + of, times.step.milliseconds());
  report.note("cast, clip, fused AdamW of LibTorch's, cast" + of, times.fused.milliseconds());
  const std::string faster = "LibTorch's update over step()";
  if (settings.judges_speed && settings.judges_update) {
    report.judge(faster, times_over(times.fused, times.step),
                 "at least " + number(kOverFused, 1) + " x",
                 times.fused.median() >= kOverFused * times.step.median());
  } else {
    report.note(faster, times_over(times.fused, times.step));
  }
  report.note("the same with what backward() does before: gradients summed in fp32, their norm",
              times_over(times.fused_with_copy, times.with_backward));
  const double change = duel.change();
  report.judge("largest change of a parameter by these steps", number(change, 6),
               "at least " + number(kLr, 6), change >= kLr);
  // Both round to bfloat16, whose neighbours lie 2^-12 apart where the parameters are largest.
  const double difference = duel.difference(), allowed = 0x1p-11;
  report.judge("largest difference of a parameter between the two", number(difference, 6),
               "at most " + number(allowed, 6), difference <= allowed);
}

}  // namespace zero::gpu_check
