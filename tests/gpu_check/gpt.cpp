#include <torch/torch.h>

#include <chrono>
#include <cmath>

#include "examples/minigpt/model.h"
#include "examples/minigpt/text_data.h"
#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

constexpr double kSmallestScale = 128, kLargestScale = 0x1p20;

struct Learnt {
  double first = 0, last = 0;  // losses, the last one a mean over a tenth of the steps
  double seconds_a_step = 0;
  double smallest_scale = INFINITY, largest_scale = 0;
  int skipped = 0, not_finite = 0;
};

class Lesson {
 public:
  Lesson(const Machine& machine, const Settings& settings, c10::ScalarType dtype)
      : settings_(settings),
        machine_(machine),
        device_(machine.device(0)),
        data_(minigpt::read_text(settings.text, settings.gpt_context)),
        order_(data_.training.count(), 1) {
    torch::manual_seed(1);
    minigpt::ModelOptions shape;
    shape.layers = settings.gpt_layers;
    shape.width = settings.gpt_width;
    shape.heads = settings.gpt_width / 32;
    shape.context = settings.gpt_context;
    model_ = minigpt::MiniGpt(shape);
    model_->to(dtype);
    machine.move(*model_);
  }

  Learnt learn() {
    Optimizer optimizer(*model_, AdamWOptions(2e-3).weight_decay(0.1),
                        machine_.options().clip_norm(1.0), alone());
    Learnt learnt;
    synchronize(device_);
    const auto start = std::chrono::steady_clock::now();
    const int steps = settings_.gpt_steps, tail = std::max(1, steps / 10);
    for (int step = 0; step < steps; ++step) {
      optimizer.backward(model_->loss(batch(step)));
      note(optimizer.step(), step, steps - tail, learnt);
    }
    learnt.last /= tail;
    synchronize(device_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    learnt.seconds_a_step = elapsed.count() / steps;
    for (const NamedTensor& parameter : named_parameters(*model_)) {
      if (!torch::isfinite(parameter.tensor.detach().to(at::kCPU)).all().item<bool>())
        ++learnt.not_finite;
    }
    optimizer.shutdown();
    return learnt;
  }

 private:
  at::Tensor batch(int step) {
    const std::int64_t count = settings_.gpt_batch;
    const auto bytes = data_.training.bytes(order_.at(step * count, count));
    return torch::tensor(bytes, at::kLong).view({count, settings_.gpt_context + 1}).to(device_);
  }

  static void note(const StepResult& result, int step, int from, Learnt& learnt) {
    if (step == 0) learnt.first = result.loss;
    if (step >= from) learnt.last += result.loss;
    if (!std::isfinite(result.loss)) ++learnt.not_finite;
    if (!result.applied) ++learnt.skipped;
    learnt.smallest_scale = std::min(learnt.smallest_scale, result.next_loss_scale);
    learnt.largest_scale = std::max(learnt.largest_scale, result.next_loss_scale);
  }

  const Settings& settings_;
  const Machine& machine_;
  c10::Device device_;
  minigpt::TextData data_;
  minigpt::SampleOrder order_;
  minigpt::MiniGpt model_{nullptr};
};

}  // namespace

void check_gpt(const Machine& machine, const Settings& settings, bool is_half, Report& report) {
  const std::string name = is_half ? "MiniGPT in float16" : "MiniGPT in bfloat16";
  const Learnt learnt = Lesson(machine, settings, is_half ? at::kHalf : at::kBFloat16).learn();
  report.judge(name + ", loss over " + std::to_string(settings.gpt_steps) + " steps",
               number(learnt.first, 2) + " to " + number(learnt.last, 2) + " nats",
               "falls by " + number(settings.gpt_fall, 1) + " or more",
               learnt.first - learnt.last >= settings.gpt_fall);
  report.judge(name + ", losses and parameters that are not finite",
               std::to_string(learnt.not_finite), "0", learnt.not_finite == 0);
  if (is_half) {
    report.judge(name + ", loss scale",
                 number(learnt.smallest_scale, 0) + " to " + number(learnt.largest_scale, 0),
                 number(kSmallestScale, 0) + " to " + number(kLargestScale, 0),
                 learnt.smallest_scale >= kSmallestScale && learnt.largest_scale <= kLargestScale);
  }
  const int allowed = is_half ? settings.gpt_steps / 10 + 1 : 0;
  report.judge(name + ", steps that were skipped", std::to_string(learnt.skipped),
               "at most " + std::to_string(allowed), learnt.skipped <= allowed);
  report.note(name + ", a step of all", number(learnt.seconds_a_step * 1e3, 2) + " ms");
}

}  // namespace zero::gpu_check
