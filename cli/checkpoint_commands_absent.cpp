/// The checkpoint commands of a build without checkpoints.

#include <CLI/CLI.hpp>

#include "cli/checkpoint_commands.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

Command add_absent(CLI::App& app, const char* name, const char* description) {
  CLI::App* command = add_command(
      app, {name, description, "...", "This build lacks checkpoints: the command exits with 3."});
  command->allow_extras();
  return {
      command, []() -> int {
        throw Unavailable("this build lacks checkpoints; build libzero with LIBZERO_WITH_HDF5=ON");
      }};
}

}  // namespace

std::vector<Command> add_checkpoint_commands(CLI::App& app) {
  return {add_absent(app, "inspect", kInspect), add_absent(app, "verify", kVerify),
          add_absent(app, "list", kList),       add_absent(app, "gc", kGc),
          add_absent(app, "reshard", kReshard), add_absent(app, "diff", kDiff),
          add_absent(app, "export", kExport)};
}

}  // namespace zero::cli
