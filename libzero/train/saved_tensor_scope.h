#pragma once

/// Saved-tensor hooks without Python: what autograd keeps for backward goes through an object of
/// ours instead.

#include <memory>

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace zero {

/// Is asked for hooks each time that autograd saves a tensor. The hooks may turn out unused.
class SavedTensorSink {
 public:
  virtual ~SavedTensorSink() = default;
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

/// While one lives, `sink` decides for this thread; of several, the innermost. Destroy on the
/// thread that made it, in reverse order of construction.
class SavedTensorScope {
 public:
  /// `sink` must outlive this. Throws Unavailable where Python's autograd engine runs in this
  /// process.
  explicit SavedTensorScope(SavedTensorSink& sink);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorSink* outer_;
};

}  // namespace zero
