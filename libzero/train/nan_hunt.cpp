#include "libzero/train/nan_hunt.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/module.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

using Tensors = std::vector<at::Tensor>;

void collect(const c10::IValue& value, Tensors& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) collect(item, tensors);
  }
}

bool can_be_looked_at(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_meta()) return false;
  const c10::ScalarType dtype = tensor.scalar_type();
  return tensor.numel() > 0 && (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
                                dtype == at::kBFloat16);
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

/// Results that hold whatever the memory held.
bool is_unwritten(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize");
}

/// Results that are parts of what was there before.
bool is_view(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema) return false;
  for (const auto& result : schema->returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

}  // namespace

std::string NotFinite::text() const {
  std::string text = "the first result that is not finite is that of " + operation;
  if (in_backward) text += " in backward";
  if (!module.empty())
    text += (is_of_module ? ", of module " : ", after module ") + module;
  else
    text += ", before any module's parameters were used";
  return text + (cause.empty() ? "; its inputs were finite" : "; before it, " + cause + " was not");
}

class NanHunt::Search {
 public:
  Search(const torch::nn::Module& model, bool negative_infinity)
      : negative_infinity_(negative_infinity) {
    for (const auto& item : model.named_parameters()) learn(item.value(), "parameter", item.key());
    for (const auto& item : model.named_buffers()) learn(item.value(), "buffer", item.key());
  }

  /// What an operation was given, until it ends.
  struct Given : at::ObserverContext {
    Tensors inputs;
    bool is_of_module = false;
  };

  /// LibTorch's callbacks are plain functions.
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
    return of_this_thread == nullptr ? nullptr : of_this_thread->starts(function);
  }
  static void on_end(const at::RecordFunction& function, at::ObserverContext* given) {
    if (of_this_thread == nullptr || given == nullptr) return;
    const at::RecordFunctionGuard not_what_is_done_here(/*is_enabled=*/false);
    const c10::NoGradGuard no_gradients;
    of_this_thread->ends(function, *static_cast<Given*>(given));
  }
  static thread_local Search* of_this_thread;

  std::unique_ptr<at::ObserverContext> starts(const at::RecordFunction& function) {
    if (found) return nullptr;
    auto given = std::make_unique<Given>();
    for (const c10::IValue& input : function.inputs()) collect(input, given->inputs);
    for (const at::Tensor& input : given->inputs) {
      const auto known = names_.find(storage_of(input));
      if (known == names_.end()) continue;
      given->is_of_module = true;
      module_ = known->second.module;
    }
    return given;
  }

  void ends(const at::RecordFunction& function, const Given& given) {
    if (is_unwritten(function) || is_view(function)) return;
    Tensors results;
    for (const c10::IValue& output : function.outputs()) collect(output, results);
    for (const at::Tensor& result : results) {
      if (!is_bad(result)) continue;
      found =
          NotFinite{module_, given.is_of_module, function.name(),
                    torch::autograd::get_current_graph_task_id() != -1, cause_of(given, results)};
      return;
    }
  }

  std::optional<NotFinite> found;

 private:
  struct Name {
    std::string whole;   ///< "parameter fc.weight"
    std::string module;  ///< "fc"
  };

  void learn(const at::Tensor& tensor, const std::string& kind, const std::string& name) {
    const void* const storage = storage_of(tensor);
    if (storage == nullptr) return;
    const std::size_t dot = name.rfind('.');
    const std::string module =
        dot == std::string::npos ? "(the model itself)" : name.substr(0, dot);
    names_.emplace(storage, Name{kind + " " + name, module});  // of tied ones the first
  }

  bool is_bad(const at::Tensor& tensor) const {
    if (!can_be_looked_at(tensor)) return false;
    const at::Tensor values = tensor.detach();  // NaN goes through both
    const double largest = values.max().item<double>();
    if (std::isnan(largest) || largest == HUGE_VAL) return true;
    return negative_infinity_ && values.min().item<double>() == -HUGE_VAL;
  }

  std::string cause_of(const Given& given, const Tensors& results) const {
    for (const at::Tensor& input : given.inputs) {
      bool is_written = false;  // in place: no longer what it was
      for (const at::Tensor& result : results)
        is_written = is_written || storage_of(result) == storage_of(input);
      if (is_written || !is_bad(input)) continue;
      const auto known = names_.find(storage_of(input));
      return known == names_.end() ? "an input" : known->second.whole;
    }
    return "";
  }

  bool negative_infinity_;
  std::map<const void*, Name> names_;  // looked up only: its order reaches nothing
  std::string module_;
};

thread_local NanHunt::Search* NanHunt::Search::of_this_thread = nullptr;

NanHunt::NanHunt(const torch::nn::Module& model, bool negative_infinity) {
  ZERO_REQUIRE(Search::of_this_thread == nullptr,
               "NanHunt: one lives on this thread already; destroy it first");
  search_ = std::make_unique<Search>(model, negative_infinity);
  callback_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(Search::on_start, Search::on_end)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
  Search::of_this_thread = search_.get();
}

NanHunt::~NanHunt() {
  Search::of_this_thread = nullptr;
  at::removeCallback(callback_);
}

const std::optional<NotFinite>& NanHunt::found() const noexcept {
  return search_->found;
}

void NanHunt::check() const {
  if (search_->found) throw Error("NanHunt: " + search_->found->text());
}

void NanHunt::forget() {
  search_->found.reset();
}

}  // namespace zero
