#pragma once

/// One JSON object a line, in a file that grows.

#include <fstream>
#include <string>

#include "libzero/observe/json_text.h"
#include "libzero/observe/step_meter.h"
#include "libzero/optim/step_result.h"

namespace zero::observe {

/// The file. Not thread-safe.
class JsonLines {
 public:
  /// `append`: the lines of an earlier part of the run stay, but for one that was cut short by its
  /// end. Throws IoError naming the file if it cannot be written.
  JsonLines(const std::string& path, bool append);

  /// Appends a line. Throws IoError. The line is with the operating system when it returns.
  void write(const JsonObject& line);

 private:
  std::string path_;
  std::ofstream file_;
};

/// Keys "loss", "applied", "reason", "grad_norm", "clip_factor", "loss_scale", "comm_s",
/// "host_bytes", and "device_bytes" where the model lies on a GPU. What is not finite becomes null.
void add_to(JsonObject& line, const StepResult& result);

/// Keys "forward_s", "backward_s", "wait_s", "update_s", "other_s", "reduce_s", "gather_s".
void add_to(JsonObject& line, const StepTimes& times);

}  // namespace zero::observe
