#pragma once

/// Times of something that was measured again and again.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu_check/report.h"

namespace zero::gpu_check {

class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }

  double best() const { return *std::min_element(seconds_.begin(), seconds_.end()); }
  double median() const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  /// "12.345 ms (best 12.1)".
  std::string milliseconds() const {
    return number(median() * 1e3, 3) + " ms (best " + number(best() * 1e3, 3) + ")";
  }

 private:
  std::vector<double> seconds_;
};

}  // namespace zero::gpu_check
