#pragma once

/// What each command brings to the program's parser.

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace zero::cli {

/// What main() runs after parsing; returns the exit code.
struct Command {
  CLI::App* parser = nullptr;
  std::function<int()> run;
};

struct CommandTexts {
  const char* name;
  const char* description;  ///< One line, for `zero --help`.
  const char* usage;        ///< Behind "zero NAME".
  const char* footer;       ///< Example, exit codes.
  const char* family = "";  ///< "trace " for `zero trace NAME`.
};

/// A subcommand whose help has these texts.
CLI::App* add_command(CLI::App& app, const CommandTexts& texts);

/// The range stands in the message of a value outside it, not in the help text.
CLI::Validator in_range(int low, int high);

CLI::Validator one_of(std::vector<std::string> names);

/// For texts of which an empty one would mean something else than it says: everything, mostly.
CLI::Validator not_empty();

/// Turns what parse_bytes() takes into a number.
CLI::Validator as_bytes();

}  // namespace zero::cli
