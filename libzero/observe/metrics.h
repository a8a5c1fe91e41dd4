#pragma once

/// What a run shows to Prometheus.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/observe/step_meter.h"
#include "libzero/optim/step_result.h"

namespace zero::observe {

/// Sums over the steps so far, and values of the last. Not thread-safe.
class Metrics {
 public:
  /// `times` may be null. Takes memory in the first step only.
  void add(const StepResult& result, double step_seconds, const StepTimes* times);

  /// In Prometheus' text format 0.0.4; docs/observability.md lists the names.
  std::string text(int rank) const;

 private:
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t applied_ = 0;  // of the whole training, resumed parts included
  double seconds_ = 0;
  double last_seconds_ = 0;
  double loss_ = 0;
  double grad_norm_ = 0;
  double clip_factor_ = 1;
  double loss_scale_ = 1;
  std::int64_t host_bytes_ = 0;
  std::int64_t device_bytes_ = 0;
  bool has_times_ = false;
  StepTimes sums_;
};

}  // namespace zero::observe
