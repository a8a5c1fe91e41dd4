#pragma once

/// One update as a LibTorch trainer in mixed precision makes it: gradients cast to fp32, clipped by
/// their norm, torch::optim::AdamW's fused kernel on fp32 masters, masters cast back.

#include <ATen/core/Tensor.h>

#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::gpu_check {

class FusedAdamW {
 public:
  FusedAdamW(const std::vector<NamedTensor>& parameters, double lr, double weight_decay,
             double clip_norm);

  void step(const std::vector<at::Tensor>& gradients);

 private:
  double lr_, weight_decay_, clip_norm_;
  std::vector<at::Tensor> parameters_, gradients_, masters_, exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace zero::gpu_check
