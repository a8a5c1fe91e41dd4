#include <fcntl.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/exit_code.h"
#include "cli/run_command.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Or the next file opened would take the place of a stream that is closed, and its output.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", O_RDWR);  // takes the lowest number: fd
  }
}

int run(int argc, char** argv) {
  open_standard_streams();
  // What stands behind "--" is another program's business: it never reaches the parser.
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> program(dashes == arguments.end() ? dashes : dashes + 1,
                                         arguments.end());
  arguments.erase(dashes, arguments.end());
  std::reverse(arguments.begin(), arguments.end());  // the order in which the parser takes a vector

  CLI::App app("libzero: train on several ranks", "zero");
  app.set_version_flag("--version", "zero " ZERO_VERSION);
  app.require_subcommand(0, 1);  // checked below: the parser's own check hides a mistyped command
  const Command command = add_run_command(app, program);
  try {
    app.parse(arguments);
    if (app.get_subcommands().empty()) throw CLI::ValidationError("no command given");
    return command();
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError& error) {
    const bool forgot_dashes = app.got_subcommand("run") && program.empty();
    std::cerr << "zero: " << on_one_line(error.what())
              << (forgot_dashes ? "; write the program behind --, as in: zero run -n 4 -- ./train\n"
                                : " (zero --help and zero run --help say more)\n");
    return kUsage;
  } catch (const CLI::Error& error) {
    std::cerr << "zero: " << on_one_line(error.what())
              << " (zero --help and zero run --help say more)\n";
    return kUsage;
  } catch (const ContractError& error) {
    std::cerr << "zero: " << error.what() << '\n';
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "zero: " << error.what() << '\n';
    return kInputOutput;
  }
}

}  // namespace
}  // namespace zero::cli

int main(int argc, char** argv) {
  return zero::cli::run(argc, argv);
}
