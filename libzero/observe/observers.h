#pragma once

#include <memory>
#include <vector>

#include "libzero/optim/observer.h"

namespace zero::observe {

/// Passes everything on to several observers, in order, on the thread that it comes on.
class Observers : public Observer {
 public:
  /// REQUIRES that none is null.
  explicit Observers(std::vector<std::shared_ptr<Observer>> all) : all_(std::move(all)) {}

  void begin(const OptimizerFacts& facts) override {
    for (const auto& one : all_) one->begin(facts);
  }
  void observe(const Span& span) noexcept override {
    for (const auto& one : all_) one->observe(span);
  }
  void collective_times(std::span<const Nanoseconds> by_rank) noexcept override {
    for (const auto& one : all_) one->collective_times(by_rank);
  }
  void step_ended(const StepResult& result) noexcept override {
    for (const auto& one : all_) one->step_ended(result);
  }

 private:
  const std::vector<std::shared_ptr<Observer>> all_;
};

}  // namespace zero::observe
