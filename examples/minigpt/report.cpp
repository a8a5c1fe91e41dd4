#include "examples/minigpt/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace minigpt {
namespace {

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::string introduction(const Flags& flags, const zero::Layout& layout,
                         const zero::Collective& comm, const std::string& precision,
                         const std::string& device) {
  std::int64_t elements = 0;
  for (const auto& parameter : layout.parameters()) {
    if (parameter.alias_of < 0) elements += parameter.numel();
  }
  std::string place = device == "cpu" ? "" : " on " + device;
  if (!place.empty() && flags.offload == "host") place += " with state in host memory";
  char text[320];
  std::snprintf(text, sizeof text,
                "minigpt: %.2f M parameters on %d rank%s (%s), stage %d, %s%s, %d thread%s a rank",
                static_cast<double>(elements) / 1e6, comm.size(), comm.size() == 1 ? "" : "s",
                std::string(comm.backend()).c_str(), flags.stage, precision.c_str(), place.c_str(),
                flags.threads, flags.threads == 1 ? "" : "s");
  return text;
}

std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

Progress::Progress(std::int64_t total_steps)
    : total_(total_steps),
      terminal_(isatty(STDERR_FILENO) != 0 || std::getenv("ZERO_RUN_TERMINAL") != nullptr) {}

void Progress::show(std::int64_t step, double loss, double tokens_per_second, double grad_norm,
                    std::int64_t host_bytes, std::int64_t device_bytes) {
  constexpr std::int64_t kWidth = 24;
  const std::int64_t every = std::max<std::int64_t>(1, total_ / 20);
  if (!terminal_ && step % every != 0 && step != total_) return;
  const auto filled = static_cast<std::size_t>(kWidth * step / total_);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::string memory = mebibytes(host_bytes) + "/rank";
  if (device_bytes > 0) memory += " on the host, " + mebibytes(device_bytes) + " on its GPU";
  is_drawn_ = terminal_ && step != total_;
  const char* const end = is_drawn_ ? "   \r" : terminal_ ? "\033[K\n" : "\n";
  std::fprintf(stderr, "[%s] step %lld/%lld  loss %.4f  %.0f tokens/s  grad norm %.3f  %s%s",
               bar.c_str(), static_cast<long long>(step), static_cast<long long>(total_), loss,
               tokens_per_second, grad_norm, memory.c_str(), end);
  std::fflush(stderr);
}

void Progress::say(const std::string& line) {
  if (std::exchange(is_drawn_, false)) std::fputs("\033[K", stderr);
  std::fflush(stderr);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace minigpt
