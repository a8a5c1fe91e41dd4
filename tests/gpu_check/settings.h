#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace zero::gpu_check {

/// How large and how long. The defaults are for a GPU.
struct Settings {
  std::int64_t elements = std::int64_t{64} << 20;  ///< Of arrays for rates of kernels, collectives.
  std::int64_t adamw_elements = std::int64_t{256} << 20;  ///< Beside the copy, a state each.
  int rounds = 10;
  int devices = 0;  ///< GPUs for collectives; 0: all.
  std::int64_t parameters =
      1'000'000'000;  ///< Beside torch's fused AdamW; less if memory is short.
  std::int64_t offload_parameters = 100'000'000;
  std::int64_t memory_parameters = 200'000'000;
  std::int64_t memory_bucket_bytes = std::int64_t{25} << 20;
  std::int64_t exact_parameters = 300'000;  ///< Where bits are compared on many ways.
  int gpt_steps = 200;
  int gpt_width = 256;
  int gpt_layers = 4;
  int gpt_batch = 64;
  int gpt_context = 128;
  double gpt_fall = 2.5;  ///< Nats that the loss falls by, at least.
  std::string text;       ///< File that it trains on.
  /// Figures of speed decide about the exit code: those of kernels, and those of a whole step,
  /// which are promised for a large model.
  bool judges_speed = true;
  bool judges_update = true;
};

/// The same with smaller sizes.
inline Settings quick(Settings settings) {
  settings.adamw_elements /= 4;
  settings.parameters = std::min<std::int64_t>(settings.parameters, 100'000'000);
  settings.offload_parameters /= 10;
  settings.memory_parameters /= 10;
  settings.judges_update = false;
  return settings;
}

// Goals of speed.
inline constexpr double kShareOfCopy = 0.9;  ///< AdamW's bytes a second, of a copy's.
inline constexpr double kOverFused = 1.5;    ///< One step beside torch's.

}  // namespace zero::gpu_check
