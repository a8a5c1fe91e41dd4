#include "examples/minigpt/flags.h"

#include <CLI/CLI.hpp>

#include "examples/minigpt/declare_flags.h"

namespace minigpt {
namespace {

/// Checkpoint flags that need one another. Empty: all is well.
std::string problem_of_checkpoints(const Flags& flags) {
  const char* saves = flags.save_every > 0 ? "--save-every"
                      : flags.save_initial ? "--save-initial"
                      : flags.async_save   ? "--async-save"
                      : flags.keep != 3    ? "--keep"
                                           : nullptr;
  if (flags.checkpoint.empty() && saves != nullptr)
    return std::string(saves) + " needs --checkpoint, the folder to save into";
  if (flags.checkpoint.empty() && flags.resume == "auto")
    return "--resume auto needs --checkpoint, the folder to look in; or name a checkpoint";
  if (flags.resume.empty() && flags.reshard_on_load) return "--reshard-on-load needs --resume";
  if (!flags.resume.empty() && flags.resume != "auto" && !flags.load_parameters.empty())
    return "--load-parameters and --resume with a path contradict each other; choose one";
  return {};
}

std::string problem_of_observation(const Flags& flags) {
  if (flags.profile > 0 && flags.profile_dir.empty())
    return "--profile-dir must name a folder; leave it out for ./profile";
  if (flags.profile == 0 && flags.profile_dir != "profile")
    return "--profile-dir needs --profile, the number of steps to record";
  return {};
}

/// What the parser cannot see in one flag alone. Empty: all is well.
std::string problem_of(const Flags& flags, int world_size) {
  const auto text = [](auto value) { return std::to_string(value); };
  if (std::string problem = problem_of_checkpoints(flags); !problem.empty()) return problem;
  if (std::string problem = problem_of_observation(flags); !problem.empty()) return problem;
  if (flags.autocast != "off" && flags.precision != "fp32")
    return "--autocast needs --precision fp32: 16-bit parameters multiply in 16 bits already; "
           "--precision is " +
           flags.precision;
  if (flags.width % flags.heads != 0) {
    return "--width must be a multiple of --heads: " + text(flags.width) + " and " +
           text(flags.heads);
  }
  constexpr std::int64_t kMaxBatch = 1'000'000;
  if (flags.batch > kMaxBatch || flags.micro_batch > kMaxBatch) {
    return "--batch and --micro-batch must be at most " + text(kMaxBatch) + ": " +
           text(flags.batch) + " and " + text(flags.micro_batch);
  }
  const std::int64_t per_call = flags.micro_batch * world_size;
  if (flags.batch % per_call != 0) {
    return "--batch must be a multiple of --micro-batch times the number of ranks, " +
           text(flags.micro_batch) + " * " + text(world_size) + "; try --batch " +
           text((flags.batch / per_call + 1) * per_call) + ": " + text(flags.batch);
  }
  return {};
}

}  // namespace

ParsedFlags parse_flags(int argc, char** argv, int world_size) {
  ParsedFlags parsed;
  CLI::App app(
      "Trains a byte-level GPT with libzero's sharded optimizer.\n"
      "Example: zero run -n 2 -- minigpt --data examples/minigpt/data/tinyshakespeare.txt --stage "
      "2",
      "minigpt");
  declare_flags(app, parsed.flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.exit_code = 0;
    parsed.message = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = 2;
    parsed.message = std::string("minigpt: ") + error.what() + " (see minigpt --help)";
    return parsed;
  }
  const std::string problem = problem_of(parsed.flags, world_size);
  if (!problem.empty()) {
    parsed.exit_code = 2;
    parsed.message = "minigpt: " + problem;
  }
  return parsed;
}

}  // namespace minigpt
