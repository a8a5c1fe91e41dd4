#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <exception>
#include <functional>
#include <thread>

#include "backends/nccl/nccl.h"
#include "backends/shm/shm.h"
#include "libzero/collective/threads.h"
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

/// Ranks of one process, a thread each.
struct World {
  std::string name;
  int size;
  std::function<std::shared_ptr<Collective>(int rank)> join;
  std::function<c10::Device(int rank)> device_of;
};

std::vector<std::vector<at::Tensor>> train_in(const World& world, const Run& run) {
  const auto size = static_cast<std::size_t>(world.size);
  std::vector<std::vector<at::Tensor>> results(size);
  std::vector<std::exception_ptr> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      try {
        Run own = run;
        own.device = world.device_of(rank);
        const auto comm = world.join(rank);
        results[r] = train(own, comm);
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

World one_rank(const Machine& machine) {
  return {"one rank", 1, [](int) { return alone(); }, [&](int) { return machine.device(0); }};
}

World sharing_a_gpu(const Machine& machine) {
  const auto store = make_memory_store();
  return {"two ranks on one GPU over shared memory", 2,
          [store](int rank) {
            return shm::join({rank, 2, kTimeout, store});
          },
          [&](int) { return machine.device(0); }};
}

/// A GPU for each rank.
World over_nccl(const Machine& machine, int size) {
  const auto store = make_memory_store();
  const auto controls = make_threads(size, kTimeout);
  return {size == 1 ? "one rank over NCCL" : "two ranks, a GPU each, over NCCL", size,
          [&machine, store, controls](int rank) {
            nccl::Options options;
            options.apis = machine.apis();
            options.control = controls[static_cast<std::size_t>(rank)];
            options.store = store;
            options.device = rank;
            options.timeout = kTimeout;
            return nccl::join(std::move(options));
          },
          [&](int rank) { return machine.device(rank); }};
}

/// A store's keys are for one world: each run gets new ones.
std::vector<World> worlds(const Machine& machine, bool with_nccl) {
  std::vector<World> result = {one_rank(machine), sharing_a_gpu(machine)};
  if (with_nccl) result.push_back(over_nccl(machine, 1));
  if (with_nccl && machine.devices() > 1) result.push_back(over_nccl(machine, 2));
  return result;
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
      const Run run{machine.device(0), dtype, settings.exact_parameters,
                    machine.options().stage(stage)};
      for (const World& world : worlds(machine, dtype == at::kBFloat16)) {
        const std::string what = name + ", stage " + std::to_string(stage) + ", " + world.name;
        report.attempt(what, [&] {
          bool is_same = true;
          for (const auto& rank : train_in(world, run)) is_same = is_same && same(rank, expected);
          judge(what, is_same, report);
        });
      }
    }
  }
}

}  // namespace zero::gpu_check
