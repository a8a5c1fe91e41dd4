#include "tests/gpu_check/fused_adamw.h"

#include <torch/torch.h>

namespace zero::gpu_check {

FusedAdamW::FusedAdamW(const std::vector<NamedTensor>& parameters, double lr, double weight_decay,
                       double clip_norm)
    : lr_(lr), weight_decay_(weight_decay), clip_norm_(clip_norm) {
  for (const NamedTensor& parameter : parameters) {
    parameters_.push_back(parameter.tensor.detach());
    masters_.push_back(parameters_.back().to(at::kFloat));
    gradients_.push_back(at::empty_like(masters_.back()));
    exp_avgs_.push_back(at::zeros_like(masters_.back()));
    exp_avg_sqs_.push_back(at::zeros_like(masters_.back()));
    steps_.push_back(at::zeros({}, masters_.back().options()));
  }
}

void FusedAdamW::step(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(gradients_, gradients);
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients_)));
  at::_foreach_mul_(gradients_, (clip_norm_ / (norm + 1e-6)).clamp_max(1.0));
  at::_foreach_add_(steps_, 1);
  at::_fused_adamw_(masters_, gradients_, exp_avgs_, exp_avg_sqs_, {}, steps_, lr_, 0.9, 0.999,
                    weight_decay_, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  at::_foreach_copy_(parameters_, masters_);
}

}  // namespace zero::gpu_check
