#include <torch/torch.h>

#include <chrono>

#include "tests/gpu_check/samples.h"
#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

struct Outcome {
  std::vector<at::Tensor> bits;  // parameters, then state of some of them
  Samples times;
};

Outcome train(const Options& options, std::int64_t count, int rounds, c10::Device device) {
  const auto parameters = parameters_of(shapes_of(count), at::kBFloat16, device);
  const std::vector<std::vector<at::Tensor>> gradients = {gradients_of(parameters, 1),
                                                          gradients_of(parameters, 2)};
  Optimizer optimizer(parameters, {}, AdamWOptions(1e-3).weight_decay(0.1), options, alone());
  Outcome outcome;
  for (int round = 0; round < rounds; ++round) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    optimizer.backward(loss_with(parameters, gradients[static_cast<std::size_t>(round % 2)]));
    optimizer.step();
    synchronize(device);
    outcome.times.add(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  outcome.bits = copies_of(parameters);
  for (const std::size_t i : {std::size_t{2}, parameters.size() - 2}) {
    for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq})
      outcome.bits.push_back(optimizer.gather(parameters[i].name, kind));
  }
  optimizer.shutdown();
  return outcome;
}

}  // namespace

void check_offload(const Machine& machine, const Settings& settings, Report& report) {
  constexpr int kRounds = 6;
  const Options options = machine.options().clip_norm(1.0);
  const auto run = [&](const Options& with) {
    return train(with, settings.offload_parameters, kRounds, machine.device(0));
  };
  const Outcome on_gpu = run(options);
  const Outcome on_host = run(Options(options).offload(Offload::kHost));
  const std::string of =
      ", " + number(static_cast<double>(settings.offload_parameters) * 1e-6, 1) + " M parameters";
  report.judge("state on the GPU and on the host (Offload::kHost)",
               same(on_gpu.bits, on_host.bits) ? "same bits" : "other bits", "same bits",
               same(on_gpu.bits, on_host.bits));
  report.note("backward() of given gradients and step(), state on the GPU" + of,
              on_gpu.times.milliseconds());
  report.note("the same, state on the host" + of, on_host.times.milliseconds());
}

}  // namespace zero::gpu_check
