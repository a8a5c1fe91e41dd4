#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backends/connect.h"
#include "libzero/zero.h"
#include "workloads.h"

namespace zero::benchmark {
namespace {

struct Flags {
  std::string workload = "minigpt";
  int stage = 2;
  int steps = 8;
  int warmup = 2;
  int accumulate = 1;
  std::string wire = "auto";
  std::string backend = "auto";
};

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  throw Error("/proc/self/status has no VmRSS");
}

std::int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

nlohmann::ordered_json measure(const Flags& flags) {
  torch::set_num_threads(1);
  const auto comm = connect({.backend = flags.backend});
  const std::int64_t before = resident_kib();
  torch::manual_seed(1);
  Workload workload = make_workload(flags.workload);
  Options options;
  options.stage(flags.stage).clip_norm(1.0);
  if (flags.wire == "bf16") options.wire(torch::kBFloat16);
  Optimizer optimizer(*workload.model, AdamWOptions(3e-4).weight_decay(0.1), options, comm);
  torch::manual_seed(static_cast<std::uint64_t>(comm->rank()) + 7);
  std::vector<torch::Tensor> batches;
  for (int i = 0; i < 2 * flags.accumulate; ++i) batches.push_back(workload.micro_batch());
  std::vector<double> wall, cpu, step_wall;
  for (int i = 0; i < flags.warmup + flags.steps; ++i) {
    comm->barrier("step")->wait();
    const auto start = std::chrono::steady_clock::now();
    const double start_cpu = process_seconds();
    for (int micro = 0; micro < flags.accumulate; ++micro) {
      const auto at = static_cast<std::size_t>(i % 2 * flags.accumulate + micro);
      optimizer.backward(workload.loss(batches[at]));
    }
    const StepResult result = optimizer.step();
    if (i < flags.warmup) continue;
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    cpu.push_back(process_seconds() - start_cpu);
    step_wall.push_back(result.seconds);
  }
  const std::int64_t peak = peak_kib();
  nlohmann::ordered_json json = {{"wall", wall},        {"cpu", cpu},
                                 {"step", step_wall},   {"before_kib", before},
                                 {"peak_kib", peak},    {"backend", comm->backend()},
                                 {"rank", comm->rank()}};
  optimizer.shutdown();
  comm->shutdown();
  return json;
}

int run(int argc, char** argv) {
  CLI::App app{
      "One rank of a training run whose steps are timed; prints one JSON object.\n"
      "Example: zero run -n 2 -- step_benchmark --workload mlp --stage 1"};
  Flags flags;
  app.add_option("--workload", flags.workload, "minigpt or mlp")->capture_default_str();
  app.add_option("--stage", flags.stage)->check(CLI::Range(0, 2))->capture_default_str();
  app.add_option("--steps", flags.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--warmup", flags.warmup, "steps before those that are timed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--accumulate", flags.accumulate, "micro-batches of each rank per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--wire", flags.wire, "how gradients travel")
      ->check(CLI::IsMember({"auto", "bf16"}))
      ->capture_default_str();
  app.add_option("--backend", flags.backend)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::cout << measure(flags).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  try {
    return zero::benchmark::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "step_benchmark: " << error.what() << '\n';
    return 3;
  }
}
