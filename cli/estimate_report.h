#pragma once

/// What `zero estimate` prints.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/kept_state.h"
#include "libzero/estimate/activations.h"
#include "libzero/estimate/memory_estimate.h"

namespace zero::cli {

struct EstimateRow {
  int stage = 2;
  int world_size = 1;
  MemoryEstimate memory;
};

struct EstimateReport {
  std::int64_t elements = 0;  ///< Of trainable parameters.
  std::string precision;      ///< "float32", or several types.
  KeptState kept;
  std::string state = "beside";  ///< Where masters and moments lie: beside, host, disk.
  std::optional<ActivationMemory> activations;
  std::optional<std::int64_t> limit;  ///< Bytes that a rank has.
  std::vector<EstimateRow> rows;

  /// Whether the rule keeps anything but masters.
  bool has_moments() const { return kept.rule != "SGD" || kept.momentum; }
  std::int64_t total(const EstimateRow& row) const;
  bool fits(const EstimateRow& row) const { return !limit || total(row) <= *limit; }
  bool any_fits() const;
};

std::string estimate_text(const EstimateReport& report, int width);
std::string estimate_json(const EstimateReport& report);

}  // namespace zero::cli
