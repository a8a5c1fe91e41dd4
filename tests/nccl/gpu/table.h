#pragma once

/// What the check prints: one line a measurement, and whether the numbers are right.

#include <optional>
#include <string>

namespace zero::gpu_check {

class Table {
 public:
  /// "| ordered_sum of 8 bfloat16 | 1234.5 GB/s | same bits |"; no rate where `bytes` is 0, "not
  /// compared" where `right` is empty.
  void add(const std::string& what, double bytes, double seconds, std::optional<bool> right);
  void heading(const std::string& text) const;
  int wrong() const { return wrong_; }

 private:
  int wrong_ = 0;
};

}  // namespace zero::gpu_check
