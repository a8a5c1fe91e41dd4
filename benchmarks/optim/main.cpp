#include <CLI/CLI.hpp>

#include "benchmarks/common/program.h"
#include "many_parameters.h"
#include "observed_step.h"

namespace zero::benchmark {
namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Compares steps of the optimizer that ought to cost the same.\n"
      "Example: optim_benchmark --rounds 15 --output optim.json"};
  RunFlags flags{15, ""};
  flags.add_to(app);
  CLI11_PARSE(app, argc, argv);

  Figures figures;
  for (const int world_size : {1, 2}) figures.run({many_parameters(world_size)}, flags.rounds);
  figures.run({observed_step(), exported_step()}, flags.rounds);
  figures.write(flags.output);
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("optim_benchmark", argc, argv, zero::benchmark::run);
}
