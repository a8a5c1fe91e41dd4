#include "libzero/train/saved_tensor_scope.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <typeinfo>
#include <utility>

#include "libzero/base/error.h"

namespace zero {
namespace {

using torch::autograd::Engine;

thread_local SavedTensorSink* innermost = nullptr;

/// LibTorch asks its default engine for hooks; the base engine has none, and at::
/// SavedTensorDefaultHooks takes Python's objects only. This one answers that question and leaves
/// all work to the base engine, so that it may become the default while backward calls are under
/// way.
class HookingEngine final : public Engine {
 public:
  HookingEngine() = default;

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return get_base_engine().execute(roots, inputs, keep_graph, create_graph, accumulate_grad,
                                     outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      std::shared_ptr<torch::autograd::Node> graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return get_base_engine().execute_with_graph_task(graph_task, std::move(graph_root),
                                                     std::move(input_buffer));
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return innermost == nullptr ? nullptr : innermost->hooks();
  }
};

Engine& hooking_engine() {
  static auto* const engine = new HookingEngine;  // never destroyed: threads may outlive main()
  return *engine;
}

void install_engine() {
  const Engine& present = Engine::get_default_engine();
  if (typeid(present) == typeid(HookingEngine)) return;
  if (typeid(present) != typeid(Engine)) {
    throw Unavailable(
        "recompute() needs LibTorch's own autograd engine, and this process has another, Python's "
        "for one; use torch.utils.checkpoint there");
  }
  torch::autograd::set_default_engine_stub(hooking_engine);
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorSink& sink) : outer_(innermost) {
  install_engine();
  innermost = &sink;
}

SavedTensorScope::~SavedTensorScope() {
  innermost = outer_;
}

}  // namespace zero
