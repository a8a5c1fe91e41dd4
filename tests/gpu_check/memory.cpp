#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

/// What LibTorch's allocator of the GPU has been asked for and not given back.
std::int64_t requested(c10::Device device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  synchronize(device);
  return at::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .requested_bytes[kAll]
      .current;
}

std::string megabytes(std::int64_t bytes) {
  return number(static_cast<double>(bytes) * 1e-6, 3) + " MB";
}

}  // namespace

void check_memory(const Machine& machine, const Settings& settings, Report& report) {
  const c10::Device device = machine.device();
  torch::zeros({1}, device);  // whatever the first use of a device takes is not the optimizer's
  const std::int64_t before = requested(device);
  const auto parameters =
      parameters_of(shapes_of(settings.memory_parameters), at::kBFloat16, device);
  Optimizer optimizer(parameters, {}, AdamWOptions(1e-3), machine.options().clip_norm(1.0),
                      alone());
  optimizer.backward(loss_with(parameters, gradients_of(parameters, 1)));
  optimizer.step();
  const MemoryReport memory = optimizer.memory();
  const std::int64_t taken = requested(device) - before;
  optimizer.shutdown();

  // docs/concepts.md: stage 2, one rank, 16-bit parameters.
  const std::int64_t formula = (2 + 16) * numel_of(parameters);
  report.judge("memory().by_formula() of bfloat16 parameters, stage 2, one rank",
               megabytes(memory.by_formula()), "18 bytes a parameter: " + megabytes(formula),
               memory.by_formula() == formula);
  const std::int64_t beside = memory.alignment + memory.block_sums + memory.staging;
  report.judge("memory().on_device", megabytes(memory.on_device),
               "the formula's, and of alignment, sums and staging at most " + megabytes(beside),
               memory.on_device >= formula && memory.on_device <= formula + beside);
  const auto difference = static_cast<double>(taken - memory.on_device);
  const double allowed = 0.01 * static_cast<double>(memory.on_device);
  report.judge("what the allocator of the GPU was asked for", megabytes(taken),
               "within 1 % of on_device", std::abs(difference) <= allowed);
}

}  // namespace zero::gpu_check
