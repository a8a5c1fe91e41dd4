#include <ATen/Parallel.h>
#include <malloc.h>

#include <CLI/CLI.hpp>

#include "benchmarks/common/program.h"
#include "cases.h"

namespace zero::benchmark {
namespace {

/// Torch's large temporaries stay with the process from here on, instead of being given back to
/// the system and faulted in again.
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int run(int argc, char** argv) {
  CLI::App app{
      "Compares the update and the sums with what the memory allows, and with torch.\n"
      "Example: kernels_benchmark --millions 25 --rounds 15 --output kernels.json"};
  std::int64_t millions = 25;
  RunFlags flags{15, ""};
  app.add_option("--millions", millions, "elements of each array")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  flags.add_to(app);
  CLI11_PARSE(app, argc, argv);

  at::set_num_threads(1);
  Streams streams(millions * 1'000'000);
  Figures figures;
  figures.run(torch_cases(streams, ".as_shipped"), (flags.rounds + 2) / 3);
  keep_freed_memory();
  figures.run(torch_cases(streams, ""), (flags.rounds + 2) / 3);
  figures.run(step_cases(streams), flags.rounds);
  figures.run(sum_cases(streams), flags.rounds);
  figures.write(flags.output);
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("kernels_benchmark", argc, argv, zero::benchmark::run);
}
