#pragma once

/// The command line: gpu_check itself, and the same on the fake machine.

#include <CLI/CLI.hpp>

#include "tests/gpu_check/machine.h"
#include "tests/gpu_check/settings.h"

namespace zero::gpu_check {

/// Runs the parts, or, as a child of that, the one that --part names. Returns the exit code: 0 all
/// is met, 1 something is not, 2 there is nothing to check on. `app` knows the caller's options,
/// which may change `settings`.
int run_program(CLI::App& app, int argc, char** argv, Settings& settings, const MakeMachine& make);

}  // namespace zero::gpu_check
