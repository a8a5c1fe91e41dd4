#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "backends/connect.h"
#include "benchmarks/common/program.h"
#include "libzero/collective/threads.h"
#include "libzero/zero.h"
#include "silent_collective.h"
#include "workloads.h"

namespace zero::benchmark {
namespace {

struct Flags {
  std::string workload = "minigpt";
  std::int64_t hidden = 4096;
  std::int64_t depth = 3;
  int stage = 2;
  int steps = 8;
  int warmup = 2;
  int accumulate = 1;
  std::int64_t bucket_mib = 25;
  std::string wire = "auto";
  std::string backend = "auto";
  std::string communication = "early";
  int threads_world = 0;
  int torch_threads = 1;
  bool no_sync = false;
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

Options optimizer_options(const Flags& flags) {
  Options options;
  options.stage(flags.stage).clip_norm(1.0).bucket_bytes(flags.bucket_mib << 20);
  if (flags.wire == "bf16") options.wire(torch::kBFloat16);
  if (flags.communication == "late") options.defer_reduction(true);
  if (flags.no_sync) options.deterministic(false);
  return options;
}

/// One rank's run.
nlohmann::ordered_json measure(const Flags& flags, std::shared_ptr<Collective> comm) {
  const std::int64_t before = resident_kib();
  torch::manual_seed(1);
  Workload workload = make_workload(flags.workload, flags.hidden, flags.depth);
  if (flags.communication == "none") comm = silent(comm);
  Optimizer optimizer(*workload.model, AdamWOptions(3e-4).weight_decay(0.1),
                      optimizer_options(flags), comm);
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
      std::optional<Optimizer::NoSync> local;
      if (flags.no_sync && micro + 1 < flags.accumulate) local.emplace(optimizer.no_sync());
      optimizer.backward(workload.loss(batches[at]));
    }
    const StepResult result = optimizer.step();
    if (i < flags.warmup) continue;
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    cpu.push_back(process_seconds() - start_cpu);
    step_wall.push_back(result.seconds);
  }
  const std::int64_t peak = peak_kib();
  std::int64_t elements = 0;
  for (const auto& parameter : workload.model->parameters()) elements += parameter.numel();
  nlohmann::ordered_json json = {{"wall", wall},
                                 {"cpu", cpu},
                                 {"step", step_wall},
                                 {"before_kib", before},
                                 {"peak_kib", peak},
                                 {"formula_mib", optimizer.memory().total() >> 20},
                                 {"backend", comm->backend()},
                                 {"rank", comm->rank()},
                                 {"parameters", elements},
                                 {"buckets", optimizer.layout().buckets().size()}};
  optimizer.shutdown();
  comm->shutdown();
  return json;
}

/// All ranks in this process. CPU seconds and memory are then those of all together.
void run_as_threads(const Flags& flags) {
  const auto ranks = make_threads(flags.threads_world, std::chrono::minutes(5));
  std::vector<std::string> lines(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] { lines[r] = measure(flags, ranks[r]).dump(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& line : lines) std::cout << line << std::endl;
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
  app.add_option("--hidden", flags.hidden, "width of the mlp's layers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--depth", flags.depth, "hidden layers of the mlp")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bucket-mib", flags.bucket_mib)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--communication", flags.communication,
                 "early: while backward runs; late: when it has ended; none: results are wrong")
      ->check(CLI::IsMember({"early", "late", "none"}))
      ->capture_default_str();
  app.add_flag("--no-sync", flags.no_sync, "one reduction a step, as DDP does with no_sync()");
  app.add_option("--threads-world", flags.threads_world,
                 "so many ranks as threads of this process; 0: the ranks of the environment")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--torch-threads", flags.torch_threads, "threads of each rank's calculations")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(flags.torch_threads);
  if (flags.threads_world > 0) {
    run_as_threads(flags);
  } else {
    std::cout << measure(flags, connect({.backend = flags.backend})).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("step_benchmark", argc, argv, zero::benchmark::run);
}
