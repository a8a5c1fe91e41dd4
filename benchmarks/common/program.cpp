#include "benchmarks/common/program.h"

#include <algorithm>
#include <iostream>
#include <utility>

namespace zero::benchmark {

void RunFlags::add_to(CLI::App& app) {
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--output", output, "a JSON file; default: standard output");
}

void Figures::add(nlohmann::ordered_json figure) {
  list_.push_back(std::move(figure));
}

void Figures::run(const std::vector<Comparison>& comparisons, int rounds) {
  for (const Comparison& comparison : comparisons) add(compare(comparison, rounds));
}

int Figures::exit_code() const {
  const auto passed = [](const auto& figure) { return figure.at("pass").template get<bool>(); };
  return std::all_of(list_.begin(), list_.end(), passed) ? 0 : 1;
}

int run_program(const char* program, int argc, char** argv, int (*run)(int argc, char** argv)) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 3;
  }
}

}  // namespace zero::benchmark
