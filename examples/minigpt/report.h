#pragma once

/// What the run tells people while it goes on.

#include <cstdint>
#include <functional>
#include <string>

#include "examples/minigpt/flags.h"
#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"

namespace minigpt {

/// Where lines for people go.
using Say = std::function<void(const std::string&)>;

/// The first line: what trains here, and how. `precision` is said as it is; `device` is LibTorch's
/// name of it.
std::string introduction(const Flags& flags, const zero::Layout& layout,
                         const zero::Collective& comm, const std::string& precision,
                         const std::string& device);

/// A model of bytes that has learnt little writes control characters, too: a terminal would obey.
std::string printable(std::string text);

/// On a terminal one line that redraws itself, and stays after the last step; elsewhere a line now
/// and then.
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
  bool is_drawn_ = false;  // where the next line belongs
};

}  // namespace minigpt
