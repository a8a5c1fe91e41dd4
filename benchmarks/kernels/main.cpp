#include <ATen/Parallel.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "benchmarks/common/report.h"
#include "cases.h"

namespace zero::benchmark {
namespace {

struct Flags {
  std::int64_t millions = 25;
  int rounds = 15;
  std::string output;
};

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
  Flags flags;
  app.add_option("--millions", flags.millions, "elements of each array")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--output", flags.output, "a JSON file; default: standard output");
  CLI11_PARSE(app, argc, argv);

  at::set_num_threads(1);
  Streams streams(flags.millions * 1'000'000);
  auto report = nlohmann::ordered_json::array();
  bool pass = true;
  const auto run_all = [&](const std::vector<Comparison>& comparisons, int rounds) {
    for (const Comparison& comparison : comparisons) {
      const Result result = compare(comparison, rounds);
      report.push_back(to_json(result));
      pass = pass && result.pass();
    }
  };
  run_all(torch_cases(streams, ".as_shipped"), (flags.rounds + 2) / 3);
  keep_freed_memory();
  run_all(torch_cases(streams, ""), (flags.rounds + 2) / 3);
  run_all(step_cases(streams), flags.rounds);
  run_all(sum_cases(streams), flags.rounds);
  write_report(flags.output, report);
  return pass ? 0 : 1;
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  try {
    return zero::benchmark::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "kernels_benchmark: " << error.what() << '\n';
    return 3;
  }
}
