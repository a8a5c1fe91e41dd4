#include <ATen/ops/ones.h>

#include <iostream>
#include <string>

#include "libzero/base/error.h"
#include "libzero/optim/optimizer.h"

// Links zero::zero and LibTorch, and sees an error of libzero arrive as the type that its header declares.
int main() {
  const at::Tensor weight = at::ones({3}).set_requires_grad(true);
  try {
    zero::Optimizer optimizer({{.name = "weight", .tensor = weight}}, {}, zero::AdamWOptions(1e-3),
                              zero::Options().stage(2), nullptr);
  } catch (const zero::ContractError& error) {
    if (std::string(error.what()).find("communicator") != std::string::npos) return 0;
    std::cerr << "another error than expected: " << error.what() << '\n';
    return 1;
  }
  std::cerr << "a null communicator was not refused\n";
  return 1;
}
