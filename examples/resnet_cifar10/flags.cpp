#include "examples/resnet_cifar10/flags.h"

#include <CLI/CLI.hpp>

namespace resnet {
namespace {

// Ranges stand in the message of a value outside them, not in the help text.
template <class Number>
CLI::Validator between(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

CLI::Validator at_least(std::int64_t low) {
  return between(low, std::int64_t{1'000'000'000});
}

void declare_data(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Data");
  app.add_option("--data", flags.data, "Folder of CIFAR-10's binary version, cifar-10-batches-bin")
      ->required();
  app.add_option(
         "--files", flags.files,
         "Train on data_batch_1.bin to data_batch_<this>.bin; test_batch.bin is for testing")
      ->check(between(1, 5));
  app.add_option("--batch", flags.batch, "Images per step, over all ranks")->check(at_least(1));
  app.add_option("--micro-batch", flags.micro_batch,
                 "Images per backward call; BatchNorm's statistics are theirs")
      ->check(at_least(1));
  app.add_option("--seed", flags.seed, "Of initial weights, sample order and augmentation");
}

void declare_run(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Run");
  app.add_option("--width", flags.width, "Channels of the first group of blocks")
      ->check(between(1, 4096));
  app.add_option("--steps", flags.steps, "Optimizer steps; the schedule spans them")
      ->check(at_least(2));
  app.add_option("--stop-after", flags.stop_after,
                 "End after this step, as if interrupted; 0: do not")
      ->check(at_least(0));
  app.add_option("--eval-every", flags.eval_every, "Steps between tests; 0: one after the last")
      ->check(at_least(0));
  app.add_option("--threads", flags.threads, "Threads per rank; part of what decides the bits")
      ->check(between(1, 1024));
}

void declare_optimizer(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Optimizer");
  app.add_option("--lr", flags.lr, "Highest learning rate; it rises and falls in one cycle")
      ->check(between(0.0, 1e6));
  app.add_option("--weight-decay", flags.weight_decay, "Of weights, not of biases and BatchNorm")
      ->check(between(0.0, 1e6));
  app.add_option("--label-smoothing", flags.label_smoothing)->check(between(0.0, 1.0));
  app.add_option("--clip", flags.clip, "Largest gradient norm; 0: no clipping")
      ->check(between(0.0, 1e12));
}

void declare_sharding(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Sharding");
  app.add_option("--stage", flags.stage,
                 "ZeRO stage: 0 replicated, 1 optimizer state sharded, 2 gradients too")
      ->check(between(0, 2));
  app.add_option("--precision", flags.precision,
                 "Of convolutions; bf16: by autocast, parameters stay in fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
}

void declare_checkpoints(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Checkpoints");
  app.add_option("--checkpoint", flags.checkpoint,
                 "Save into this folder after the last step, and when a signal ends the run");
  app.add_option("--save-every", flags.save_every, "Steps between saves; 0: none before the last")
      ->check(at_least(0));
  app.add_option("--keep", flags.keep, "Newest checkpoints to keep; 0: all")->check(at_least(0));
  app.add_option("--resume", flags.resume,
                 "auto: from the newest whole checkpoint of --checkpoint, if there is one; or the "
                 "path of a checkpoint");
  app.add_flag("--reshard-on-load", flags.reshard_on_load,
               "Resume from a checkpoint that another number of ranks saved");
}

/// What the parser cannot see in one flag alone. Empty: all is well.
std::string problem_of(const Flags& flags, int world_size) {
  const auto text = [](auto value) { return std::to_string(value); };
  if (flags.checkpoint.empty() && flags.save_every > 0)
    return "--save-every needs --checkpoint, the folder to save into";
  if (flags.checkpoint.empty() && flags.resume == "auto")
    return "--resume auto needs --checkpoint, the folder to look in; or name a checkpoint";
  if (flags.resume.empty() && flags.reshard_on_load) return "--reshard-on-load needs --resume";
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
      "Trains ResNet-18 on CIFAR-10 with libzero's sharded optimizer.\n"
      "Example: zero run -n 2 -- resnet_cifar10 --data cifar-10-batches-bin --checkpoint runs/a",
      "resnet_cifar10");
  app.option_defaults()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->always_capture_default();
  for (auto* const declare :
       {declare_data, declare_run, declare_optimizer, declare_sharding, declare_checkpoints})
    declare(app, parsed.flags);
  try {
    app.parse(argc, argv);
    parsed.message = problem_of(parsed.flags, world_size);
  } catch (const CLI::CallForHelp&) {
    return {parsed.flags, 0, app.help()};
  } catch (const CLI::ParseError& error) {
    parsed.message = std::string(error.what()) + " (see resnet_cifar10 --help)";
  }
  if (!parsed.message.empty()) {
    parsed.message = "resnet_cifar10: " + parsed.message;
    parsed.exit_code = 2;
  }
  return parsed;
}

}  // namespace resnet
