#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <algorithm>

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

std::int64_t largest_of(const std::vector<NamedTensor>& parameters) {
  std::size_t bytes = 0;
  for (const NamedTensor& parameter : parameters)
    bytes = std::max(bytes, parameter.tensor.nbytes());
  return static_cast<std::int64_t>(bytes);
}

std::string megabytes(std::int64_t bytes) {
  return number(static_cast<double>(bytes) * 1e-6, 3) + " MB";
}

}  // namespace

void check_memory(const Machine& machine, const Settings& settings, Report& report) {
  const c10::Device device = machine.device(0);
  torch::zeros({1}, device);  // whatever the first use of a device takes is not the optimizer's
  const std::int64_t before = requested(device);
  const auto parameters =
      parameters_of(shapes_of(settings.memory_parameters), at::kBFloat16, device);
  Options options = machine.options().clip_norm(1.0);
  options.bucket_bytes(settings.memory_bucket_bytes)
      .first_bucket_bytes(std::min(options.first_bucket_bytes(), options.bucket_bytes()));
  Optimizer optimizer(parameters, {}, AdamWOptions(1e-3), options, alone());
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
  // The gradients that came last are let go when the next ones come.
  const std::int64_t kept = 2 * std::max(largest_of(parameters), options.bucket_bytes());
  const std::int64_t one_percent = memory.on_device / 100;
  report.judge(
      "what the allocator of the GPU was asked for", megabytes(taken),
      "on_device within 1 %, and at most " + megabytes(kept) + " of gradients, two buckets, more",
      taken >= memory.on_device - one_percent && taken <= memory.on_device + one_percent + kept);
}

}  // namespace zero::gpu_check
