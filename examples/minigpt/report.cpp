#include "examples/minigpt/report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace minigpt {
namespace {

/// JSON has no infinity and no NaN; a skipped step's norm becomes null.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

/// A run that was killed may have left half a line.
void cut_unfinished_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole < text.size()) std::filesystem::resize_file(path, whole);
}

}  // namespace

JsonLog::JsonLog(const std::string& path, bool append) : path_(path) {
  if (path_.empty()) return;
  if (append) cut_unfinished_line(path_);
  file_.open(path_, append ? std::ios::app : std::ios::trunc);
  if (!file_) throw std::runtime_error("--log cannot be written; check the folder: " + path_);
}

void JsonLog::step(const Step& step) {
  if (path_.empty()) return;
  const zero::StepResult& result = step.result;
  nlohmann::ordered_json line = {{"step", step.step},
                                 {"loss", number(result.loss)},
                                 {"lr", step.lr},
                                 {"applied", result.applied},
                                 {"reason", result.reason},
                                 {"grad_norm", number(result.grad_norm)},
                                 {"clip_factor", number(result.clip_factor)},
                                 {"loss_scale", result.loss_scale},
                                 {"tokens_per_s", step.tokens_per_second},
                                 {"step_s", step.seconds},
                                 {"comm_s", result.comm_seconds}};
  if (step.samples != nullptr) line["samples"] = *step.samples;
  write(line.dump());
}

void JsonLog::evaluation(std::int64_t step, double loss) {
  if (path_.empty()) return;
  write(nlohmann::ordered_json{{"step", step}, {"eval_loss", number(loss)}}.dump());
}

void JsonLog::write(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) throw std::runtime_error("--log: writing failed, is the disk full?: " + path_);
}

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
