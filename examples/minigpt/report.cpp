#include "examples/minigpt/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace minigpt {
namespace {

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Progress::Progress(std::int64_t total_steps)
    : total_(total_steps),
      terminal_(isatty(STDERR_FILENO) != 0 || std::getenv("ZERO_RUN_TERMINAL") != nullptr) {}

void Progress::show(std::int64_t step, double loss, double tokens_per_second, double grad_norm,
                    std::int64_t bytes_per_rank, std::int64_t bytes_on_its_gpu) {
  constexpr std::int64_t kWidth = 24;
  const std::int64_t every = std::max<std::int64_t>(1, total_ / 20);
  if (!terminal_ && step % every != 0 && step != total_) return;
  const auto filled = static_cast<std::size_t>(kWidth * step / total_);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::string on_gpu;
  if (bytes_on_its_gpu > 0) on_gpu = ", " + mebibytes(bytes_on_its_gpu) + " on its GPU";
  std::fprintf(stderr, "[%s] step %lld/%lld  loss %.4f  %.0f tokens/s  grad norm %.3f  %s/rank%s%s",
               bar.c_str(), static_cast<long long>(step), static_cast<long long>(total_), loss,
               tokens_per_second, grad_norm, mebibytes(bytes_per_rank).c_str(), on_gpu.c_str(),
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
