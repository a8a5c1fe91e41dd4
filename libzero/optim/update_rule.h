#pragma once

/// What the optimizer knows of an update rule, and all that it knows (docs/new_update_rule.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/base/dtype.h"
#include "libzero/kernels/cuda/abi.h"
#include "libzero/optim/options.h"
#include "libzero/optim/state_kind.h"

namespace zero {

/// Room for a rule's moments: the slots of a step, and of a file (libzero/offload).
inline constexpr std::size_t kMostMoments = 2;

/// The rule's moments, then the average, where there is one.
inline constexpr std::size_t kMostKept = kMostMoments + 1;

/// One group's options in the order of UpdateRule::option_names(), flags as 0 and 1. What is beyond
/// is 0.
using OptionValues = std::array<double, 8>;

/// Elements of one parameter in memory. No two of the arrays overlap.
struct UpdateRun {
  const float* gradient = nullptr;
  float gradient_factor = 1;
  float* master = nullptr;
  std::array<float*, kMostMoments> moments{};  ///< In the order of UpdateRule::moments().
  void* low_precision = nullptr;  ///< Null, or receives the new master, rounded to nearest even.
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t n = 0;

  /// Elements [begin, end).
  UpdateRun part(std::int64_t begin, std::int64_t end) const;
};

/// What a step on a GPU reads of the device's memory, and where it goes.
struct DeviceStep {
  const cuda::KernelApi& kernels;
  cuda::Stream stream;
  const cuda::StepState* state;  ///< Its gradient_factor stands in the place of the run's.
  const void* constants;         ///< UpdateRule::constants() of this update.
  float value_limit;  ///< Above 0: gradients, factor included, are brought into its bounds.
};

/// One optimizer's. It reads no memory but that of a run, and elements do not influence each other:
/// so stages, ranks, threads and offload cannot change its bits.
class UpdateRule {
 public:
  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;
  virtual ~UpdateRule() = default;

  /// In errors and checkpoints: "AdamW".
  virtual std::string_view name() const noexcept = 0;
  /// As checkpoints and LoadOptions::keep_options name them; `lr` is one.
  virtual std::span<const std::string_view> option_names() const noexcept = 0;
  /// What is kept for each element, kMostMoments at most. They begin at 0. The same as long as this
  /// lives.
  virtual std::span<const StateKind> moments() const noexcept = 0;

  /// Nothing for another rule's options.
  virtual std::optional<OptionValues> values_of(
      const torch::optim::OptimizerOptions& options) const = 0;
  /// `options` are this rule's.
  virtual void assign(const OptionValues& values,
                      torch::optim::OptimizerOptions& options) const = 0;
  /// Empty, or what is wrong with a group's options: "lr must be ...: -1".
  virtual std::string fault_of(const OptionValues& values) const = 0;

  /// Before the runs of an update, for each class of parameters (UpdateClasses) its group's options
  /// and which of its updates this is, counted from 1. Takes memory the first time only.
  virtual void begin_step(std::span<const OptionValues> classes,
                          std::span<const std::int64_t> steps) = 0;
  /// One pass over a run of one class. Thread-safe over disjoint memory.
  virtual void step(std::int32_t index, const UpdateRun& run) const = 0;

  /// The constants of all classes, one after the other, valid until the next begin_step().
  virtual std::span<const std::byte> constants() const noexcept = 0;
  /// step() on a GPU, with its bits: the run's arrays lie in the device's memory. Starts a kernel
  /// and returns a cudaError_t. Thread-safe.
  virtual int launch(std::int32_t index, const UpdateRun& run, const DeviceStep& on) const = 0;
};

/// The rule that the options say. Throws ContractError where groups have options of another rule
/// than the defaults.
std::unique_ptr<UpdateRule> make_update_rule(const RuleOptions& defaults,
                                             const std::vector<ParameterGroup>& groups);

/// The options as LibTorch holds them.
const torch::optim::OptimizerOptions& base_of(const RuleOptions& options);

}  // namespace zero
