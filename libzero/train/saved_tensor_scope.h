#pragma once

/// Saved-tensor hooks without Python: what autograd keeps for backward goes through an object of
/// ours instead.

#include <memory>

namespace torch::autograd {
struct SavedVariableHooks;
}

namespace zero {

/// Is asked for hooks each time that autograd saves a tensor. The hooks may turn out unused. Scopes
/// of several threads may share one that is thread-safe.
class SavedTensorSink {
 public:
  virtual ~SavedTensorSink() = default;
  /// Hooks for one tensor; null: it is saved as without a sink. On the thread of the scope; what it
  /// throws comes out of the operation that saves.
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
