#pragma once

#include "cli/command.h"

namespace zero::cli {

/// `zero trace merge`.
Command add_trace_command(CLI::App& app);

}  // namespace zero::cli
