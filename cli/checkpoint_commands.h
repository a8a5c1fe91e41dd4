#pragma once

/// The commands that read and write checkpoints.

#include <vector>

#include "cli/command.h"

namespace zero::cli {

/// All of them, in the order of `zero --help`. In a build without checkpoints they throw
/// Unavailable when run.
std::vector<Command> add_checkpoint_commands(CLI::App& app);

Command add_inspect_command(CLI::App& app);
Command add_verify_command(CLI::App& app);
Command add_list_command(CLI::App& app);
Command add_gc_command(CLI::App& app);
Command add_reshard_command(CLI::App& app);
Command add_diff_command(CLI::App& app);
Command add_export_command(CLI::App& app);

// One line each, for `zero --help`, whether or not the build has them.
inline constexpr const char* kInspect = "Show what a checkpoint holds, and where.";
inline constexpr const char* kVerify = "Check that a checkpoint is whole, to the last byte.";
inline constexpr const char* kList = "List the checkpoints of a root.";
inline constexpr const char* kGc = "Remove old checkpoints and what crashes have left.";
inline constexpr const char* kReshard = "Write a checkpoint anew for another number of ranks.";
inline constexpr const char* kDiff = "Compare the training states of two checkpoints.";
inline constexpr const char* kExport = "Write a checkpoint's parameters whole, for other programs.";

}  // namespace zero::cli
