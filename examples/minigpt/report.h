#pragma once

/// What the run tells people: a JSON line a step, and a progress bar.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "libzero/optim/step_result.h"

namespace minigpt {

/// One JSON object a line. Does nothing without a path.
class JsonLog {
 public:
  /// `append`: the lines of an earlier part of the run stay, but for one that was cut short. Throws
  /// std::runtime_error naming the file if it cannot be written.
  JsonLog(const std::string& path, bool append);

  struct Step {
    std::int64_t step = 0;  ///< From 1.
    double lr = 0;
    double seconds = 0;
    double tokens_per_second = 0;
    const zero::StepResult& result;
    const std::vector<std::int64_t>* samples = nullptr;  ///< Logged unless null.
  };
  void step(const Step& step);
  void evaluation(std::int64_t step, double loss);

 private:
  void write(const std::string& line);

  std::string path_;
  std::ofstream file_;
};

/// On a terminal one line that redraws itself; elsewhere a line now and then.
class Progress {
 public:
  explicit Progress(std::int64_t total_steps);

  void show(std::int64_t step, double loss, double tokens_per_second, double grad_norm,
            std::int64_t bytes_per_rank);

  /// A line of its own.
  void say(const std::string& line);

 private:
  std::int64_t total_;
  bool terminal_;
};

}  // namespace minigpt
