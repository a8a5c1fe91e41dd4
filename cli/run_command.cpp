#include "cli/run_command.h"

#include <memory>

#include <CLI/CLI.hpp>

#include "cli/exit_code.h"
#include "cli/launcher.h"

namespace zero::cli {
namespace {

constexpr const char* kDescription =
    "Start a program on several ranks of this machine and take all down when one fails.";

constexpr const char* kFooter = R"(
Example:
  zero run -n 4 --threads 2 -- ./train --steps 100

Everything behind -- is the program and its arguments. Each line of its output gets the rank in
front ("[2] loss 3.1"); progress lines (ended by a carriage return) are drawn on a terminal and
dropped elsewhere. Standard input of the ranks is /dev/null.

Set for each rank: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT; ZERO_STORE and ZERO_SECRET, by which the ranks
meet; OMP_NUM_THREADS and MKL_NUM_THREADS (from --threads); ZERO_RUN_TERMINAL=1 where stderr is a
terminal. MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ are set to 1 GiB unless you have set
them: large tensors then reuse memory instead of having the kernel clear new pages each time; ranks
hold on to memory that they have freed.

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to every rank. After SIGINT or SIGTERM
ranks have 5 s to end; a second one kills them at once. Processes that ranks have started end with
the run.

Exit code: 0 if all ranks exit with 0, otherwise that of the first rank that fails (128 + signal if
a signal killed it); 2 wrong usage; 3 the port is taken or the system has no process to give; 126
the program cannot be executed; 127 there is no such program.)";

}  // namespace

Command add_run_command(CLI::App& app, const std::vector<std::string>& program) {
  auto settings = std::make_shared<RunSettings>();
  CLI::App* run = add_command(
      app, {"run", kDescription, "-n RANKS [OPTIONS] -- PROGRAM [ARGUMENTS...]", kFooter});
  run->add_option("-n,--ranks", settings->ranks, "How many ranks to start")
      ->required()
      ->type_name("N")
      ->check(in_range(1, 4096));
  run->add_option("--backend", settings->backend, "How ranks talk: auto, gloo (sets ZERO_BACKEND)")
      ->type_name("NAME");
  run->add_option("--threads", settings->threads,
                  "Threads of each rank (default 1); part of what makes runs repeatable")
      ->type_name("N")
      ->check(in_range(1, 4096));
  run->add_option("--port", settings->port,
                  "Port of the key-value store on 127.0.0.1 (default: any)")
      ->type_name("PORT")
      ->check(in_range(0, 65535));
  run->add_option("--timeout", settings->timeout_seconds,
                  "Seconds after which a silent rank is an error (sets ZERO_TIMEOUT)")
      ->type_name("S")
      ->check(in_range(1, 1000000));
  return {run, [settings, &program] {
            if (program.empty()) {
              throw CLI::ValidationError(
                  "no program given; write it behind --, as in: zero run -n 4 -- ./train");
            }
            settings->program = program;
            return launch(*settings);
          }};
}

}  // namespace zero::cli
