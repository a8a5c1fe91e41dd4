#pragma once

/// `zero run`: starts a program on several ranks of this machine.

#include <string>
#include <vector>

#include "cli/command.h"

namespace zero::cli {

/// Adds the command to `app`. `program` is what stood behind "--"; both must outlive the returned
/// command.
Command add_run_command(CLI::App& app, const std::vector<std::string>& program);

}  // namespace zero::cli
