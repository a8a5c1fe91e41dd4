#pragma once

#include <cstdint>
#include <string>

namespace resnet {

/// Everything that the command line says.
struct Flags {
  std::string data;
  int files = 5;
  std::int64_t width = 64;
  std::int64_t steps = 320;
  std::int64_t stop_after = 0;  ///< 0: run to the end.
  std::int64_t eval_every = 0;  ///< Steps; 0: only after the last.
  int threads = 1;
  std::int64_t batch = 128;       ///< Images per step, over all ranks.
  std::int64_t micro_batch = 64;  ///< Images per backward call, and of BatchNorm's statistics.
  std::uint64_t seed = 1;
  double lr = 4e-3;
  double weight_decay = 0.05;
  double label_smoothing = 0.1;
  double clip = 0.0;
  int stage = 2;
  std::string precision = "fp32";
  std::string checkpoint;       ///< Empty: nothing is saved.
  std::int64_t save_every = 0;  ///< Steps; 0: only after the last.
  std::int64_t keep = 3;        ///< Whole checkpoints; 0: all.
  std::string resume;           ///< "auto" or a path; empty: start fresh.
  bool reshard_on_load = false;
};

struct ParsedFlags {
  Flags flags;
  int exit_code = -1;   ///< -1: go on. 0: help was asked for. 2: bad flags.
  std::string message;  ///< To be printed where exit_code is not -1.
};

/// Reads and checks the command line for a run on `world_size` ranks; of a repeated option the last
/// one wins.
ParsedFlags parse_flags(int argc, char** argv, int world_size);

}  // namespace resnet
