#pragma once

/// Mixed precision for a part of a program: matrix products in 16 bits, losses in float32.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace zero {

/// What holds on a thread for one kind of device.
struct AutocastState {
  bool enabled = false;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  friend bool operator==(const AutocastState&, const AutocastState&) = default;
};

/// Of this thread. Throws ContractError for a device that LibTorch has no autocast for.
AutocastState autocast_state(c10::DeviceType device);

/// While one lives, this thread's operations on tensors of `device` cast their inputs as PyTorch's
/// `torch.autocast` does (docs/training.md has the list for CPUs).
///
///   at::Tensor loss;
///   {
///     zero::Autocast autocast(at::kCPU, at::kBFloat16);
///     at::Tensor logits = model->forward(tokens);
///     zero::Autocast off = zero::Autocast::off(at::kCPU);  // an island in float32
///     loss = loss_of(logits.to(at::kFloat));
///   }
///   optimizer.backward(loss);
///
/// Regions may lie within each other, with other dtypes, for other devices, on and off; each ends
/// by restoring what was before it. Casts of float32 leaves (weights) are kept, so that a weight is
/// cast once, until the outermost region of this thread ends: update weights outside. Other threads
/// are not affected. Destroy on the thread that made it, in reverse order of construction.
class [[nodiscard]] Autocast {
 public:
  /// `dtype`: bfloat16 or float16. Throws ContractError for others, and for a device that LibTorch
  /// has no autocast for.
  explicit Autocast(c10::DeviceType device, c10::ScalarType dtype);

  /// A region without casts. Tensors keep the dtype that they have: those of a region around it may
  /// be 16-bit.
  static Autocast off(c10::DeviceType device);

  /// A region as another was. Throws as the others do.
  Autocast(c10::DeviceType device, const AutocastState& state);

  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  AutocastState before_;
};

}  // namespace zero
