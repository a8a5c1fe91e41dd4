#include <torch/torch.h>

#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

constexpr std::int64_t kBefore = 3, kAfter = 2;  // steps

struct Trained {
  Trained(c10::Device device, const Options& options, std::int64_t count)
      : parameters(parameters_of(shapes_of(count), at::kBFloat16, device)),
        optimizer(parameters, {}, AdamWOptions(1e-2).weight_decay(0.1),
                  Options(options).clip_norm(0.5), alone()) {}

  void train(std::int64_t from, std::int64_t steps) {
    for (std::int64_t step = from; step < from + steps; ++step) {
      optimizer.backward(loss_with(parameters, gradients_of(parameters, step)));
      optimizer.step();
    }
  }

  std::vector<at::Tensor> state(StateKind kind) {
    std::vector<at::Tensor> values;
    for (const NamedTensor& parameter : parameters)
      values.push_back(optimizer.gather(parameter.name, kind));
    return values;
  }

  std::vector<NamedTensor> parameters;
  Optimizer optimizer;
};

void judge(const std::string& what, bool is_same, Report& report) {
  report.judge(what, is_same ? "same bytes" : "other bytes", "the GPU's", is_same);
}

}  // namespace

void check_checkpoint(const Machine& machine, const Settings& settings, Report& report) {
  Trained saved(machine.device(0), machine.options(), settings.exact_parameters);
  saved.train(0, kBefore);
  const auto store = machine.store();
  saved.optimizer.save(*store);
  Trained loaded(at::kCPU, Options(), settings.exact_parameters);
  {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& parameter : loaded.parameters) parameter.tensor.zero_();
  }
  loaded.optimizer.load(*store, saved.optimizer.steps_taken());
  const std::string head = "saved on the GPU, loaded on the CPU: ";
  judge(head + "masters", same(saved.state(StateKind::kMaster), loaded.state(StateKind::kMaster)),
        report);
  judge(head + "moments",
        same(saved.state(StateKind::kExpAvg), loaded.state(StateKind::kExpAvg)) &&
            same(saved.state(StateKind::kExpAvgSq), loaded.state(StateKind::kExpAvgSq)),
        report);
  judge(head + "parameters", same(copies_of(saved.parameters), copies_of(loaded.parameters)),
        report);
  for (Trained* trained : {&saved, &loaded}) trained->train(kBefore, kAfter);
  judge(head + "parameters " + std::to_string(kAfter) + " steps later",
        same(copies_of(saved.parameters), copies_of(loaded.parameters)), report);
  saved.optimizer.shutdown();
  loaded.optimizer.shutdown();
}

}  // namespace zero::gpu_check
