#include "cli/checkpoint_commands.h"

namespace zero::cli {

std::vector<Command> add_checkpoint_commands(CLI::App& app) {
  return {add_inspect_command(app), add_verify_command(app),  add_list_command(app),
          add_gc_command(app),      add_reshard_command(app), add_diff_command(app),
          add_export_command(app)};
}

}  // namespace zero::cli
