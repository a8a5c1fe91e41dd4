#include "examples/minigpt/declare_flags.h"

#include <CLI/CLI.hpp>

namespace minigpt {
namespace {

// Ranges stand in the message of a value outside them, not in the help text.
template <class Number>
CLI::Validator between(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

CLI::Validator at_least(std::int64_t low) {
  return between(low, std::int64_t{1'000'000'000'000});
}

CLI::Validator not_negative() {
  return between(0.0, 1e12);
}

void declare_data(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Data");
  app.add_option("--data", flags.data, "Text to train on; its last 10 % are held out")->required();
  app.add_option("--context", flags.context, "Bytes of a sequence")->check(at_least(1));
  app.add_option("--batch", flags.batch, "Sequences per step, over all ranks")->check(at_least(1));
  app.add_option("--micro-batch", flags.micro_batch, "Sequences per backward call")
      ->check(at_least(1));
  app.add_option("--seed", flags.seed,
                 "Of initial weights, sample order, dropout and generated text");
}

void declare_model(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Model");
  app.add_option("--layers", flags.layers)->check(at_least(1));
  app.add_option("--width", flags.width, "A multiple of --heads")->check(at_least(1));
  app.add_option("--heads", flags.heads)->check(at_least(1));
  app.add_option("--dropout", flags.dropout, "Of embeddings, attention and residual branches")
      ->check(between(0.0, 0.999));
  app.add_flag(
      "--recompute", flags.recompute,
      "Keep the blocks' inputs only and compute them again in backward: the same bits, less "
      "memory, more time");
}

void declare_run(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Run");
  app.add_option("--steps", flags.steps, "Optimizer steps; the schedule spans them")
      ->check(at_least(1));
  app.add_option("--stop-after", flags.stop_after,
                 "End after this step, as if interrupted; 0: do not")
      ->check(at_least(0));
  app.add_option("--threads", flags.threads, "Threads per rank; part of what decides the bits")
      ->check(between(1, 1024));
  app.add_option("--device", flags.device,
                 "cpu, cuda (the GPU of the rank's number on its host), cuda:<number>, or auto: "
                 "cuda where there is one");
  app.add_flag("--share-device", flags.share_device, "Let several ranks train on one GPU");
  app.add_option("--eval-every", flags.eval_every, "Steps between validations; 0: none")
      ->check(at_least(0));
  app.add_option("--sample", flags.sample, "Characters to generate at the end; 0: none")
      ->check(at_least(0));
  app.add_option("--log", flags.log, "Write one JSON object a step to this file");
  app.add_flag("--log-samples", flags.log_samples, "Log each step's sample indices too");
}

void declare_observation(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Observation");
  app.add_option("--profile", flags.profile,
                 "Record a timeline of this many steps on each rank, after two to warm up; 0: none")
      ->check(at_least(0));
  app.add_option("--profile-dir", flags.profile_dir, "Folder of the timelines");
  app.add_option("--tensorboard", flags.tensorboard, "Write scalars of each step to this folder");
  app.add_option("--metrics-port", flags.metrics_port,
                 "Serve figures to Prometheus at this port of 127.0.0.1; 0: any that is free; -1: "
                 "do not")
      ->check(between(-1, 65535));
  app.add_option("--late-rank-every", flags.late_rank_every,
                 "Steps after which to say which rank the others wait for; 0: never")
      ->check(at_least(0));
}

void declare_checkpoints(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Checkpoints");
  app.add_option("--checkpoint", flags.checkpoint,
                 "Save into this folder after the last step, and when a signal ends the run");
  app.add_option("--save-every", flags.save_every, "Steps between saves; 0: none before the last")
      ->check(at_least(0));
  app.add_flag("--save-initial", flags.save_initial, "Save before the first step, too");
  app.add_option("--keep", flags.keep, "Newest checkpoints to keep; 0: all")->check(at_least(0));
  app.add_flag("--async-save", flags.async_save, "Write while training goes on");
  app.add_option("--resume", flags.resume,
                 "auto: from the newest whole checkpoint of --checkpoint, if there is one; or the "
                 "path of a checkpoint");
  app.add_flag("--reshard-on-load", flags.reshard_on_load,
               "Resume from a checkpoint that another number of ranks saved");
  app.add_option("--load-parameters", flags.load_parameters,
                 "Start from the weights of this .safetensors file, unless there is a checkpoint");
}

void declare_optimizer(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Optimizer");
  app.add_option("--optimizer", flags.optimizer, "Update rule; sgd wants a larger --lr: 0.3, say")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  app.add_option("--lr", flags.lr, "Highest learning rate")->check(not_negative());
  app.add_option("--min-lr", flags.min_lr, "Learning rate at the end of a schedule that has one")
      ->check(not_negative());
  app.add_option("--warmup", flags.warmup, "Steps of linear warm-up; one-cycle: of its own rise")
      ->check(at_least(0));
  app.add_option("--schedule", flags.schedule, "From --lr to --min-lr after the warm-up")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "polynomial", "inverse-sqrt",
                             "one-cycle", "stable-decay"}));
  app.add_option("--weight-decay", flags.weight_decay, "Of matrices")->check(not_negative());
  app.add_option("--beta1", flags.beta1)->check(between(0.0, 0.999999));
  app.add_option("--beta2", flags.beta2)->check(between(0.0, 0.999999));
  app.add_option("--momentum", flags.momentum, "Of sgd; 0: none")->check(between(0.0, 0.999999));
  app.add_option("--clip", flags.clip, "Largest gradient norm; 0: no clipping")
      ->check(not_negative());
  app.add_option("--ema", flags.ema,
                 "Keep an average of the weights with this decay, and validate and sample with it; "
                 "0: none")
      ->check(between(0.0, 0.9999999));
}

void declare_sharding(CLI::App& app, Flags& flags) {
  app.option_defaults()->group("Sharding");
  app.add_option("--stage", flags.stage,
                 "ZeRO stage: 0 replicated, 1 optimizer state sharded, 2 gradients too")
      ->check(between(0, 2));
  app.add_option("--precision", flags.precision,
                 "Of parameters; auto: bf16 on a GPU, fp32 on a CPU")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16"}));
  app.add_option("--autocast", flags.autocast,
                 "Matrix products in bf16, parameters stay in fp32: needs --precision fp32")
      ->check(CLI::IsMember({"off", "bf16"}));
  app.add_option("--wire", flags.wire, "Of gradients between ranks; auto: as the parameters")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}));
  app.add_option("--bucket-mib", flags.bucket_mib, "Largest buckets of gradients")
      ->check(between(0.0001, 1e6));
  app.add_flag("--defer-reduction", flags.defer_reduction,
               "Reduce after backward instead of during it");
  app.add_option("--offload", flags.offload,
                 "Where masters and moments lie: none (with the model) or host (its memory)")
      ->check(CLI::IsMember({"none", "host"}));
  app.add_option("--offload-dir", flags.offload_dir,
                 "Keep masters and moments in files in this folder, which must exist")
      ->excludes("--offload");
  app.add_option("--checksum-every", flags.checksum_every,
                 "Steps after which all ranks compare their parameters; 0: never")
      ->check(at_least(0));
}

}  // namespace

void declare_flags(CLI::App& app, Flags& flags) {
  app.option_defaults()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->always_capture_default();
  for (auto* const declare : {declare_data, declare_model, declare_run, declare_observation,
                              declare_checkpoints, declare_optimizer, declare_sharding})
    declare(app, flags);
}

}  // namespace minigpt
