#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "benchmarks/common/report.h"
#include "many_parameters.h"

namespace zero::benchmark {
namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Compares steps of the optimizer that ought to cost the same.\n"
      "Example: optim_benchmark --rounds 15 --output optim.json"};
  int rounds = 15;
  std::string output;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--output", output, "a JSON file; default: standard output");
  CLI11_PARSE(app, argc, argv);

  auto report = nlohmann::ordered_json::array();
  bool pass = true;
  for (const int world_size : {1, 2}) {
    const Result result = compare(many_parameters(world_size), rounds);
    report.push_back(to_json(result));
    pass = pass && result.pass();
  }
  write_report(output, report);
  return pass ? 0 : 1;
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  try {
    return zero::benchmark::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "optim_benchmark: " << error.what() << '\n';
    return 3;
  }
}
