#pragma once

#include <vector>

#include "libzero/kernels/sgd.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// See libzero/kernels/sgd.h for the formulas.
class SGDRule : public UpdateRule {
 public:
  /// `groups`: options of all, as the optimizer is built. Where none has momentum no buffer is
  /// kept, and none can have it later.
  explicit SGDRule(std::span<const RuleOptions> groups);

  std::string_view name() const noexcept override { return "SGD"; }
  std::span<const std::string_view> option_names() const noexcept override;
  std::span<const StateKind> moments() const noexcept override;
  std::optional<OptionValues> values_of(
      const torch::optim::OptimizerOptions& options) const override;
  void assign(const OptionValues& values, torch::optim::OptimizerOptions& options) const override;
  std::string fault_of(const OptionValues& values) const override;
  void begin_step(std::span<const OptionValues> classes,
                  std::span<const std::int64_t> steps) override;
  void step(std::int32_t group, const UpdateRun& run) const override;
  std::span<const std::byte> constants() const noexcept override {
    return std::as_bytes(std::span(constants_));
  }
  int launch(std::int32_t group, const UpdateRun& run, const DeviceStep& on) const override;

 private:
  bool has_buffer_ = false;
  std::vector<SGDConstants> constants_;  // of the present step, by group
};

}  // namespace zero
