#include "cli/run_command.h"

#include <memory>
#include <string>

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
hold on to memory that they have freed. So that it can be reused whole, GLIBC_TUNABLES turns the C
library's caches of small blocks per thread off, unless you have set it.

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to every rank. After SIGINT or SIGTERM
ranks have the time of --grace to save and end (with exit code 0, if the run's shall be 0); a second
one kills them at once. Processes that ranks have started end with the run.

--restarts: when a rank is killed by a signal or exits with a code other than 0, all are taken down
and started again, with TORCHELASTIC_RESTART_COUNT one higher and a new store and secret. The
trainer has to go on from its last checkpoint by itself (minigpt: --resume auto, and
--reshard-on-load where the number of ranks may change). Never started again: after the exit codes
2, 126 and 127, and once SIGINT, SIGTERM or SIGHUP has come.
--min-ranks: each restart has fewer ranks, the next smaller divisor of --ranks (or of
--micro-batches) that is not below it; the same number where there is none:
  zero run -n 4 --restarts 3 --min-ranks 1 -- ./train --resume auto --reshard-on-load

Exit code: 0 if all ranks exit with 0, otherwise that of the first rank that fails (128 + signal if
a signal killed it), in the last try; 2 wrong usage; 3 the port is taken or the system has no
process to give; 126 the program cannot be executed; 127 there is no such program.)";

void add_restart_options(CLI::App& run, RunSettings& settings) {
  constexpr int kMost = 1000000;
  CLI::Option* restarts = run.add_option("--restarts", settings.restarts,
                                         "How many times to start again after a death (default 0)")
                              ->type_name("K")
                              ->check(in_range(0, kMost));
  CLI::Option* min_ranks = run.add_option("--min-ranks", settings.min_ranks,
                                          "Restart with fewer ranks, down to these (default: with "
                                          "the same number)")
                               ->type_name("M")
                               ->check(in_range(1, 4096))
                               ->needs(restarts);
  run.add_option("--micro-batches", settings.micro_batches,
                 "Micro-batches of the global batch, which the fewer ranks must divide")
      ->type_name("B")
      ->check(in_range(1, kMost))
      ->needs(min_ranks);
}

void require_consistent(const RunSettings& settings) {
  if (settings.min_ranks && *settings.min_ranks > settings.ranks) {
    throw CLI::ValidationError(
        "--min-ranks must not be more than --ranks: " + std::to_string(*settings.min_ranks) +
        " and " + std::to_string(settings.ranks));
  }
  if (settings.micro_batches && *settings.micro_batches % settings.ranks != 0) {
    throw CLI::ValidationError("--micro-batches must be a multiple of --ranks: " +
                               std::to_string(*settings.micro_batches) + " and " +
                               std::to_string(settings.ranks));
  }
}

}  // namespace

Command add_run_command(CLI::App& app, const std::vector<std::string>& program) {
  auto settings = std::make_shared<RunSettings>();
  CLI::App* run = add_command(
      app, {"run", kDescription, "-n RANKS [OPTIONS] -- PROGRAM [ARGUMENTS...]", kFooter});
  run->add_option("-n,--ranks", settings->ranks, "How many ranks to start")
      ->required()
      ->type_name("N")
      ->check(in_range(1, 4096));
  run->add_option("--backend", settings->backend,
                  "How ranks talk: auto, self, shm, gloo, nccl (sets ZERO_BACKEND)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "self", "shm", "gloo", "nccl"}).description(""));
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
  run->add_option("--grace", settings->grace_seconds,
                  "Seconds that ranks have to end after SIGINT or SIGTERM (default 30)")
      ->type_name("S")
      ->check(in_range(0, 1000000));
  add_restart_options(*run, *settings);
  return {run, [settings, &program] {
            if (program.empty()) {
              throw CLI::ValidationError(
                  "no program given; write it behind --, as in: zero run -n 4 -- ./train");
            }
            require_consistent(*settings);
            settings->program = program;
            return launch(*settings);
          }};
}

}  // namespace zero::cli
