#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <iostream>

#include "libzero/zero.h"

// A trainer of one rank, from outside: three steps must bring the loss down.
int main() {
  const at::Tensor weight = at::ones({3}).set_requires_grad(true);
  const at::Tensor input = at::full({3}, 2.0);
  const auto comm = zero::connect();
  zero::Optimizer optimizer({{.name = "weight", .tensor = weight}}, {}, zero::AdamWOptions(0.1),
                            zero::Options().stage(2).clip_norm(1.0), comm);
  double first_loss = 0;
  zero::StepResult result;
  for (int step = 0; step < 3; ++step) {
    optimizer.backward(weight.mul(input).square().mean());
    result = optimizer.step();
    if (step == 0) first_loss = result.loss;
  }
  optimizer.shutdown();
  if (result.applied && first_loss == 4.0 && result.loss < first_loss) return 0;
  std::cerr << "the loss did not fall: " << first_loss << " then " << result.loss << '\n';
  return 1;
}
