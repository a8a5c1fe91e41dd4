#pragma once

/// What every benchmark program does the same way.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "benchmarks/common/report.h"

namespace zero::benchmark {

/// --rounds and --output.
struct RunFlags {
  int rounds;
  std::string output;

  /// REQUIRES that this outlives the parsing.
  void add_to(CLI::App& app);
};

/// Figures, in the order in which they were added.
class Figures {
 public:
  void add(const Result& result) { add(to_json(result)); }
  /// REQUIRES a member "pass".
  void add(nlohmann::ordered_json figure);
  void run(const std::vector<Comparison>& comparisons, int rounds);

  /// Throws IoError.
  void write(const std::string& output) const { write_report(output, list_); }
  /// 0 if all pass, else 1.
  int exit_code() const;

 private:
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

/// The main() of `program`: what `run` returns; 3, with a line on standard error, if it throws.
int run_program(const char* program, int argc, char** argv, int (*run)(int argc, char** argv));

}  // namespace zero::benchmark
