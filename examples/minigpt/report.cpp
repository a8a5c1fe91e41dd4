#include "examples/minigpt/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace minigpt {

Progress::Progress(std::int64_t total_steps)
    : total_(total_steps),
      terminal_(isatty(STDERR_FILENO) != 0 || std::getenv("ZERO_RUN_TERMINAL") != nullptr) {}

void Progress::show(std::int64_t step, double loss, double tokens_per_second, double grad_norm,
                    std::int64_t bytes_per_rank) {
  constexpr std::int64_t kWidth = 24;
  const std::int64_t every = std::max<std::int64_t>(1, total_ / 20);
  if (!terminal_ && step % every != 0 && step != total_) return;
  const auto filled = static_cast<std::size_t>(kWidth * step / total_);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr,
               "[%s] step %lld/%lld  loss %.4f  %.0f tokens/s  grad norm %.3f  %.2f MiB/rank%s",
               bar.c_str(), static_cast<long long>(step), static_cast<long long>(total_), loss,
               tokens_per_second, grad_norm, static_cast<double>(bytes_per_rank) / (1 << 20),
               terminal_ ? "   \r" : "\n");
  std::fflush(stderr);
}

void Progress::say(const std::string& line) {
  if (terminal_) std::fputs("\033[K", stderr);
  std::fflush(stderr);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace minigpt
