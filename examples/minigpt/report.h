#pragma once

/// What the run tells people while it goes on.

#include <cstdint>
#include <string>

namespace minigpt {

/// On a terminal one line that redraws itself; elsewhere a line now and then.
class Progress {
 public:
  explicit Progress(std::int64_t total_steps);

  void show(std::int64_t step, double loss, double tokens_per_second, double grad_norm,
            std::int64_t host_bytes, std::int64_t device_bytes);

  /// A line of its own.
  void say(const std::string& line);

 private:
  std::int64_t total_;
  bool terminal_;
};

}  // namespace minigpt
