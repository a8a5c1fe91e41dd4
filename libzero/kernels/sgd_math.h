#pragma once

/// The arithmetic of SGD for one element and for one step, shared by hosts and GPUs: the formulas
/// of sgd.h, each operation rounded on its own. Compile with contraction to FMA off.

#include "libzero/kernels/host_device.h"
#include "libzero/kernels/sgd.h"

namespace zero {

/// sgd_constants() without its checks.
ZERO_HOST_DEVICE inline SGDConstants unchecked_sgd_constants(const SGDHyperparameters& h) {
  SGDConstants c;
  c.decay = static_cast<float>(1 - h.lr * h.weight_decay);
  c.momentum = static_cast<float>(h.momentum);
  c.lr = static_cast<float>(h.lr);
  c.nesterov = h.nesterov;
  return c;
}

struct SGDElement {
  float p, b;
};

/// `raw`: the gradient, widened, before gradient_factor.
ZERO_HOST_DEVICE inline SGDElement sgd_element(const SGDConstants& c, float gradient_factor,
                                               float raw, SGDElement old) {
  const float g = raw * gradient_factor;
  SGDElement next;
  next.b = c.momentum * old.b + g;
  const float d = c.nesterov ? g + c.momentum * next.b : next.b;
  next.p = old.p * c.decay - c.lr * d;
  return next;
}

/// The same where no buffer is kept.
ZERO_HOST_DEVICE inline float sgd_element(const SGDConstants& c, float gradient_factor, float raw,
                                          float p) {
  const float g = raw * gradient_factor;
  return p * c.decay - c.lr * g;
}

}  // namespace zero
