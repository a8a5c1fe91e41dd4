#include <algorithm>
#include <csignal>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/checkpoint_commands.h"
#include "cli/estimate_command.h"
#include "cli/exit_code.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/run_command.h"
#include "cli/trace_command.h"
#include "cli/versions.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

/// What stands behind the first "--" of `zero run` is another program's business: it never reaches
/// the parser. For other commands "--" ends the options.
std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  std::vector<std::string> program;
  if (arguments.empty() || arguments.front() != "run") return program;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return program;
  program.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return program;
}

int run_command(const CLI::App& app, const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (app.got_subcommand(command.parser)) return command.run();
  }
  throw CLI::ValidationError("no command given");
}

int usage_error(const CLI::App& app, const CLI::Error& error) {
  std::string help = "zero ";
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = chosen[0]->get_subcommands()) {
    help += chosen[0]->get_name() + " ";
  }
  complain(error.what() + (" (" + help + "--help says more)"));
  return kUsage;
}

int run(std::vector<std::string> arguments) {
  CLI::App app("libzero: train on several ranks, and look after the checkpoints", "zero");
  app.set_version_flag("--version", versions_text,
                       "Print the versions of zero and of its libraries");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.require_subcommand(0, 1);  // checked below: the parser's own check hides a mistyped command
  const std::vector<std::string> program = take_program(arguments);
  std::vector<Command> commands = {add_run_command(app, program)};
  std::ranges::copy(add_checkpoint_commands(app), std::back_inserter(commands));
  commands.push_back(add_estimate_command(app));
  commands.push_back(add_trace_command(app));
  std::reverse(arguments.begin(), arguments.end());  // the order in which the parser takes a vector
  try {
    app.parse(arguments);
    return run_command(app, commands);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ExtrasError& error) {
    if (!app.got_subcommand("run") || !program.empty()) return usage_error(app, error);
    complain(std::string(error.what()) +
             "; write the program behind --, as in: zero run -n 4 -- ./train");
    return kUsage;
  } catch (const CLI::Error& error) {
    return usage_error(app, error);
  }
}

int guarded_run(int argc, char** argv) {
  open_standard_streams();
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return run({argv + std::min(argc, 1), argv + argc});
  } catch (const Interrupted& stop) {
    complain(stop.what());
    return 128 + stop.signal();
  } catch (const FormatError& error) {
    complain(error.what());
    return kNo;
  } catch (const ContractError& error) {
    complain(error.what());
    return kUsage;
  } catch (const std::exception& error) {
    complain(error.what());
    return kInputOutput;
  }
}

}  // namespace
}  // namespace zero::cli

int main(int argc, char** argv) {
  return zero::cli::guarded_run(argc, argv);
}
