#pragma once

/// What can be watched of a run: the log, a timeline, TensorBoard, Prometheus, the late rank.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/minigpt/flags.h"
#include "examples/minigpt/report.h"
#include "libzero/observe/json_lines.h"
#include "libzero/observe/late_rank.h"
#include "libzero/observe/metrics_server.h"
#include "libzero/observe/step_meter.h"
#include "libzero/observe/tensorboard.h"
#include "libzero/observe/timeline.h"

namespace minigpt {

/// As the flags say. Every rank has its timeline; the rest is rank 0's.
class Observation {
 public:
  /// `flags` must outlive this. `say` is called from begin() on.
  Observation(const Flags& flags, int rank, Say say);

  /// For the optimizer; null where nobody watches it.
  std::shared_ptr<zero::Observer> observer() const noexcept { return observer_; }

  /// Opens what is written to. `append`: the log goes on. Throws IoError.
  void begin(bool append);

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

  /// Writes a timeline that the run was too short for.
  void finish();

  /// The same when the run has failed, and cannot be helped if that fails, too.
  void save_what_there_is() noexcept;

 private:
  void log_step(const Step& step);
  void draw_step(const Step& step);
  void write_timeline();

  const Flags& flags_;
  const int rank_;
  const Say say_;
  // Null or empty: not asked for.
  std::shared_ptr<zero::observe::Timeline> timeline_;
  std::shared_ptr<zero::observe::StepMeter> meter_;
  std::shared_ptr<zero::observe::LateRank> late_rank_;
  std::shared_ptr<zero::Observer> observer_;
  std::optional<zero::observe::JsonLines> log_;
  std::optional<zero::observe::TensorBoard> board_;
  std::optional<zero::observe::MetricsServer> metrics_;
  bool is_timeline_written_ = false;
};

}  // namespace minigpt
