#include "libzero/optim/ema_scope.h"

#include <ATen/core/grad_mode.h>

#include "libzero/optim/model_sync.h"

namespace zero {

EmaScope::EmaScope(std::vector<at::Tensor> parameters, std::shared_ptr<bool> flag)
    : parameters_(std::move(parameters)), flag_(std::move(flag)) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_)
    copies_.push_back(parameter.detach().clone(at::MemoryFormat::Contiguous));
  *flag_ = true;
}

EmaScope::~EmaScope() {
  if (!flag_) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) copy_into(parameters_[i], copies_[i]);
  *flag_ = false;
}

}  // namespace zero
