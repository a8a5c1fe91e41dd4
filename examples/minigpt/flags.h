#pragma once

#include <cstdint>
#include <string>

namespace minigpt {

/// Everything that the command line says. Lengths are in bytes of text, which are the model's
/// tokens.
struct Flags {
  std::string data;
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t context = 128;
  double dropout = 0.0;  ///< Probability.
  bool recompute = false;
  std::int64_t steps = 400;
  std::int64_t stop_after = 0;  ///< 0: run to the end.
  int threads = 1;
  std::string device = "cpu";
  bool share_device = false;
  std::int64_t batch = 16;       ///< Sequences per step, over all ranks.
  std::int64_t micro_batch = 4;  ///< Sequences per backward call.
  std::string optimizer = "adamw";
  double lr = 1e-3;
  double min_lr = 1e-4;
  std::int64_t warmup = 20;
  std::string schedule = "cosine";
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double momentum = 0.9;  ///< Of SGD.
  double clip = 1.0;
  double ema = 0;  ///< Decay; 0: no average is kept.
  int stage = 2;
  std::string precision = "auto";
  std::string autocast = "off";
  std::string wire = "auto";
  double bucket_mib = 25.0;
  bool defer_reduction = false;
  std::int64_t checksum_every = 0;  ///< Steps; 0: never.
  std::string offload = "none";
  std::string offload_dir;  ///< Empty: state stays in memory.
  std::uint64_t seed = 1;
  std::string checkpoint;       ///< Empty: nothing is saved.
  std::int64_t save_every = 0;  ///< Steps; 0: only after the last.
  bool save_initial = false;
  std::int64_t keep = 3;  ///< Whole checkpoints; 0: all.
  bool async_save = false;
  std::string resume;  ///< "auto" or a path; empty: start fresh.
  bool reshard_on_load = false;
  std::string load_parameters;
  std::string log;
  bool log_samples = false;
  std::int64_t profile = 0;  ///< Steps; 0: none.
  std::string profile_dir = "profile";
  std::string tensorboard;           ///< Empty: none.
  int metrics_port = -1;             ///< -1: none. 0: any that is free.
  std::int64_t late_rank_every = 0;  ///< Steps; 0: never.
  std::int64_t eval_every = 100;
  std::int64_t sample = 300;
};

struct ParsedFlags {
  Flags flags;
  int exit_code = -1;   ///< -1: go on. 0: help was asked for. 2: bad flags.
  std::string message;  ///< To be printed where exit_code is not -1.
};

/// Reads and checks the command line for a run on `world_size` ranks; of a repeated option the last
/// one wins.
ParsedFlags parse_flags(int argc, char** argv, int world_size);

}  // namespace minigpt
