#pragma once

/// `zero run`: starts a program on several ranks of this machine.

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace zero::cli {

/// What main() runs after parsing; returns the exit code.
using Command = std::function<int()>;

/// Adds the command to `app`. `program` is what stood behind "--"; both must outlive the returned
/// command.
Command add_run_command(CLI::App& app, const std::vector<std::string>& program);

}  // namespace zero::cli
