#pragma once

#include "cli/command.h"

namespace zero::cli {

Command add_estimate_command(CLI::App& app);

}  // namespace zero::cli
