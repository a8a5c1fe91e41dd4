#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <exception>
#include <thread>

#include "backends/shm/shm.h"
#include "tests/gpu_check/training.h"
#include "tests/gpu_check/training_parts.h"

namespace zero::gpu_check {
namespace {

constexpr std::int64_t kSteps = 4;
constexpr std::int64_t kMicros = 2;  // of a global batch
constexpr std::chrono::seconds kTimeout{30};

struct Run {
  c10::Device device;
  c10::ScalarType dtype;
  std::int64_t parameters;
  Options options;
};

/// One rank's parameters after the run.
std::vector<at::Tensor> train(const Run& run, const std::shared_ptr<Collective>& comm) {
  const c10::OptionalDeviceGuard here(run.device.is_cpu() ? std::nullopt
                                                          : std::optional(run.device));
  const auto parameters = parameters_of(shapes_of(run.parameters), run.dtype, run.device);
  Options options = run.options;
  options.clip_norm(0.5).bucket_bytes(100'000).first_bucket_bytes(20'000);
  Optimizer optimizer(parameters, {}, AdamWOptions(1e-2).weight_decay(0.1), options, comm);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (std::int64_t i = comm->rank(); i < kMicros; i += comm->size())
      optimizer.backward(loss_with(parameters, gradients_of(parameters, step * kMicros + i)));
    optimizer.step();
  }
  optimizer.shutdown();
  return copies_of(parameters);
}

/// Two ranks of one process that share memory, both on run.device.
std::vector<std::vector<at::Tensor>> train_two(const Run& run) {
  const auto store = make_memory_store();
  std::vector<std::vector<at::Tensor>> results(2);
  std::vector<std::exception_ptr> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      try {
        const auto comm = shm::join({rank, 2, kTimeout, store});
        results[r] = train(run, comm);
        comm->shutdown();
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return results;
}

void judge(const std::string& what, bool is_same, Report& report) {
  report.judge(what, is_same ? "same bits" : "other bits", "one rank's on the CPU", is_same);
}

}  // namespace

void check_bits(const Machine& machine, const Settings& settings, Report& report) {
  for (const auto dtype : {at::kBFloat16, at::kHalf, at::kFloat}) {
    const std::string name = std::string("parameters of ") + c10::toString(dtype);
    std::vector<at::Tensor> expected;
    report.attempt(name + " on the CPU", [&] {
      expected = train({at::kCPU, dtype, settings.exact_parameters, Options()}, alone());
    });
    for (const int stage : {2, 1, 0}) {
      const Run run{machine.device(), dtype, settings.exact_parameters,
                    machine.options().stage(stage)};
      const std::string tail = ", stage " + std::to_string(stage);
      report.attempt(name + tail + ", one rank", [&] {
        judge(name + tail + ", one rank", same(train(run, alone()), expected), report);
      });
      const std::string two = name + tail + ", two ranks on one GPU over shared memory";
      report.attempt(two, [&] {
        const auto ranks = train_two(run);
        judge(two, same(ranks[0], expected) && same(ranks[1], expected), report);
      });
    }
  }
}

}  // namespace zero::gpu_check
