#pragma once

/// AdamW, the mean of a window's gradients, norm and clipping in double precision and in one
/// process, straight from the formulas. It shares no code with the library.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace zero::testing {

struct ReferenceOptions {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
};

struct ReferenceParameter {
  std::size_t group = 0;
  std::vector<double> master;
  std::vector<double> gradient;  ///< Mean over the window.
  std::vector<double> exp_avg;
  std::vector<double> exp_avg_sq;
};

class ReferenceAdamW {
 public:
  std::vector<ReferenceOptions> groups;
  std::vector<ReferenceParameter> parameters;

  void add_parameter(std::size_t group, const std::vector<double>& values) {
    const std::vector<double> zeros(values.size(), 0.0);
    parameters.push_back({group, values, zeros, zeros, zeros});
  }

  double norm() const {
    double sum = 0;
    for (const ReferenceParameter& p : parameters) {
      for (const double g : p.gradient) sum += g * g;
    }
    return std::sqrt(sum);
  }

  /// clip_norm 0: no clipping.
  double clip_factor(double clip_norm) const {
    const double n = norm();
    return clip_norm > 0 && n > clip_norm ? clip_norm / (n + 1e-6) : 1.0;
  }

  void step(double clip_factor) {
    ++applied_;
    for (ReferenceParameter& p : parameters) {
      for (std::size_t i = 0; i < p.master.size(); ++i) update(p, i, clip_factor);
    }
  }

 private:
  void update(ReferenceParameter& p, std::size_t i, double clip_factor) {
    const ReferenceOptions& o = groups[p.group];
    const double t = static_cast<double>(applied_);
    const double g = p.gradient[i] * clip_factor;
    p.exp_avg[i] = o.beta1 * p.exp_avg[i] + (1 - o.beta1) * g;
    p.exp_avg_sq[i] = o.beta2 * p.exp_avg_sq[i] + (1 - o.beta2) * g * g;
    const double m_hat = p.exp_avg[i] / (1 - std::pow(o.beta1, t));
    const double v_hat = p.exp_avg_sq[i] / (1 - std::pow(o.beta2, t));
    p.master[i] -= o.lr * o.weight_decay * p.master[i];
    p.master[i] -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }

  long applied_ = 0;
};

}  // namespace zero::testing
