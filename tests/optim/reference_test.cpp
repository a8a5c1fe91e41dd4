#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tuple>

#include "tests/optim/pull.h"
#include "tests/optim/reference_adamw.h"

// Each micro-batch's loss is amplitude * sum_j (c_j p_j + q_j p_j^2 / 2): the gradient is
// amplitude * (c_j + q_j p_j), with c different for every element, micro-batch and step. All
// numbers have so few bits that 16-bit gradients are the exact value rounded once.

namespace zero {
namespace {

using testing::ReferenceAdamW;

constexpr std::int64_t kSteps = 12;
constexpr std::int64_t kMicros = 6;
constexpr double kClipNorm = 100;
const std::vector<std::vector<std::int64_t>> kShapes = {{17, 9},    {5},   {},
                                                        {130, 129}, {129}, {40, 70}};
const std::vector<std::string> kNames = {"in", "in_bias", "gain", "body", "body_bias", "out"};

struct Setup {
  torch::Dtype dtype;
  int world_size;
  int stage;
  bool ragged;
  std::int64_t alignment;
};

std::string describe(const Setup& s) {
  return "world " + std::to_string(s.world_size) + " stage " + std::to_string(s.stage) +
         (s.ragged ? " ragged" : "") + " alignment " + std::to_string(s.alignment);
}

double sign(std::int64_t j) {
  return j % 3 == 0 ? -1.0 : 1.0;
}
double initial(std::size_t k, std::int64_t j) {
  return sign(j + static_cast<std::int64_t>(k)) *
         (32 + (j * 7 + static_cast<std::int64_t>(k)) % 64) / 64.0;
}
double linear(std::size_t k, std::int64_t j, std::int64_t step, std::int64_t micro) {
  const std::int64_t mix =
      static_cast<std::int64_t>(k) * 5 + j * 13 + j / 97 + step * 29 + micro * 17;
  return sign(j) * (16 + mix % 49) / 16.0;
}
double quadratic(std::int64_t j) {
  return j % 2 == 0 ? 0.25 : 0.5;
}
double amplitude(std::int64_t step) {
  return step % 3 == 1 ? 0.125 : 1.0;
}
std::int64_t tokens(bool ragged, std::int64_t step, std::int64_t micro) {
  constexpr std::int64_t kTokens[] = {3, 5, 0, 7};
  return ragged ? kTokens[(step + micro) % 4] : 1;
}

/// Rounds as a cast to `dtype` does.
double round_to(torch::Dtype dtype, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == torch::kBFloat16) return static_cast<float>(c10::BFloat16(single));
  if (dtype == torch::kHalf) return static_cast<float>(c10::Half(single));
  return value;
}

template <typename Function>
torch::Tensor make_tensor(std::size_t k, Function function) {
  const std::int64_t numel = c10::multiply_integers(kShapes[k]);
  std::vector<float> values;
  for (std::int64_t j = 0; j < numel; ++j) values.push_back(static_cast<float>(function(j)));
  return torch::tensor(values).view(kShapes[k]);
}

struct Model {
  explicit Model(torch::Dtype dtype) {
    for (std::size_t k = 0; k < kShapes.size(); ++k) {
      auto value = make_tensor(k, [k](std::int64_t j) { return initial(k, j); });
      parameters.push_back({kNames[k], value.to(dtype).requires_grad_()});
      half_quadratic.push_back(make_tensor(k, [](std::int64_t j) { return quadratic(j) / 2; }));
    }
  }

  torch::Tensor loss(std::int64_t step, std::int64_t micro) const {
    torch::Tensor sum = torch::zeros({});
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const auto p = parameters[k].tensor.to(torch::kFloat);
      const auto c = make_tensor(k, [&](std::int64_t j) { return linear(k, j, step, micro); });
      sum = sum + (p * c).sum() + (p * p * half_quadratic[k]).sum();
    }
    return sum * amplitude(step);
  }

  std::vector<NamedTensor> parameters;
  std::vector<torch::Tensor> half_quadratic;
};

/// The reference beside one run of the library.
class Reference {
 public:
  explicit Reference(const Setup& setup) : setup_(setup) {
    adamw.groups = {{1e-2, 0.9, 0.999, 1e-8, 0.1}, {3e-2, 0.8, 0.99, 1e-6, 0.0}};
    for (std::size_t k = 0; k < kShapes.size(); ++k) {
      std::vector<double> values;
      for (std::int64_t j = 0; j < c10::multiply_integers(kShapes[k]); ++j)
        values.push_back(initial(k, j));
      adamw.add_parameter(kShapes[k].size() < 2 ? 1 : 0, values);
    }
  }

  /// The mean gradient and loss of a window. 16-bit gradients are taken at the model's own values,
  /// so that a master one bit beside a rounding boundary does not matter; fp32 ones at the
  /// reference's.
  void backward(std::int64_t step, double loss_scale, const Model& model) {
    weight = 0;
    for (std::int64_t i = 0; i < kMicros; ++i) weight += tokens(setup_.ragged, step, i);
    loss = magnitude = 0;
    for (std::size_t k = 0; k < kShapes.size(); ++k) {
      auto& p = adamw.parameters[k];
      const std::vector<float> own = testing::values_of(model.parameters[k].tensor);
      for (std::size_t j = 0; j < p.master.size(); ++j) {
        p.gradient[j] =
            element(k, j, step, loss_scale, setup_.dtype == torch::kFloat ? p.master[j] : own[j]);
      }
    }
  }

  ReferenceAdamW adamw;
  std::int64_t weight = 0;
  double loss = 0;
  double magnitude = 0;  // sum of the absolute terms of the loss, to judge rounding

 private:
  double element(std::size_t k, std::size_t element, std::int64_t step, double loss_scale,
                 double p) {
    const auto j = static_cast<std::int64_t>(element);
    double sum = 0;
    for (std::int64_t i = 0; i < kMicros; ++i) {
      const auto w = static_cast<double>(tokens(setup_.ragged, step, i));
      const double c = linear(k, j, step, i);
      sum += round_to(setup_.dtype, loss_scale * w * amplitude(step) * (c + quadratic(j) * p));
      const double share =
          amplitude(step) * (c * p + quadratic(j) / 2 * p * p) * w / static_cast<double>(weight);
      loss += share;
      magnitude += std::abs(share);
    }
    return sum / (loss_scale * static_cast<double>(weight));
  }

  Setup setup_;
};

void expect_close(const torch::Tensor& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  const std::vector<float> values = testing::values_of(actual);
  ASSERT_EQ(values.size(), expected.size()) << what;
  double largest = 0, error = 0;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(values[i] - expected[i]);
    if (difference <= error) continue;
    error = difference;
    worst = i;
  }
  EXPECT_LE(error, tolerance * largest)
      << what << "[" << worst << "] is " << values[worst] << ", expected " << expected[worst];
}

using Member = std::vector<double> testing::ReferenceParameter::*;

void expect_state(Optimizer& optimizer, const Reference& reference, StateKind kind, Member member,
                  double tolerance, const std::string& what) {
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    const auto actual = optimizer.gather(kNames[k], kind);
    EXPECT_EQ(actual.sizes(), c10::IntArrayRef(kShapes[k]));
    expect_close(actual, reference.adamw.parameters[k].*member, tolerance,
                 what + " of " + kNames[k]);
  }
}

/// Every rank's own parameters are the gathered masters, rounded: nobody computes with stale
/// values.
void expect_parameters_are_rounded_masters(Optimizer& optimizer, const Model& model) {
  for (const NamedTensor& p : model.parameters) {
    const auto master = optimizer.gather(p.name, StateKind::kMaster);
    EXPECT_TRUE(torch::equal(p.tensor.detach(), master.to(p.tensor.scalar_type()))) << p.name;
  }
}

Options options_of(const Setup& setup) {
  Options options;
  options.stage(setup.stage).clip_norm(kClipNorm).shard_alignment(setup.alignment);
  options.bucket_bytes(20000).first_bucket_bytes(4000);
  options.loss_scaler({.initial_scale = 256, .growth_interval = 5});
  options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                   AdamWOptions(3e-2).betas({0.8, 0.99}).eps(1e-6).weight_decay(0.0)}});
  return options;
}

/// From step 6 on both groups learn at half the rate.
void set_learning_rates(Optimizer& optimizer, Reference& reference, std::int64_t step) {
  const double rates[] = {step < 6 ? 1e-2 : 5e-3, step < 6 ? 3e-2 : 1.5e-2};
  for (std::size_t g = 0; g < 2; ++g) {
    optimizer.param_groups()[g].options().set_lr(rates[g]);
    reference.adamw.groups[g].lr = rates[g];
  }
}

void expect_step(const StepResult& result, const Reference& reference, const Setup& setup,
                 std::int64_t step) {
  const double clip = reference.adamw.clip_factor(kClipNorm);
  EXPECT_TRUE(result.applied);
  EXPECT_EQ(result.step, step + 1);
  EXPECT_EQ(result.weight, reference.weight);
  EXPECT_NEAR(result.grad_norm, reference.adamw.norm(), 1e-6 * reference.adamw.norm());
  EXPECT_NEAR(result.clip_factor, clip, 1e-6 * clip);
  EXPECT_EQ(result.clip_factor == 1, step % 3 == 1);
  EXPECT_NEAR(result.loss, reference.loss, 2e-6 * reference.magnitude);
  const bool scaled = setup.dtype == torch::kHalf;
  EXPECT_EQ(result.loss_scale, scaled ? 256 << (step / 5) : 1);
  EXPECT_EQ(result.next_loss_scale, scaled ? 256 << ((step + 1) / 5) : 1);
}

void train_beside_reference(const Setup& setup) {
  testing::on_ranks(setup.world_size, [&](const std::shared_ptr<Collective>& comm) {
    Model model(setup.dtype);
    Optimizer optimizer(model.parameters, {}, AdamWOptions(1e-2).weight_decay(0.1),
                        options_of(setup), comm);
    Reference reference(setup);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(describe(setup) + " rank " + std::to_string(comm->rank()) + " step " +
                   std::to_string(step));
      set_learning_rates(optimizer, reference, step);
      for (std::int64_t i = comm->rank(); i < kMicros; i += setup.world_size) {
        optimizer.backward(model.loss(step, i), tokens(setup.ragged, step, i));
      }
      reference.backward(step, optimizer.loss_scale(), model);
      using Parameter = testing::ReferenceParameter;
      expect_state(optimizer, reference, StateKind::kGradient, &Parameter::gradient, 1e-6,
                   "gradient before step");
      const StepResult result = optimizer.step();
      expect_step(result, reference, setup, step);
      reference.adamw.step(reference.adamw.clip_factor(kClipNorm));
      expect_state(optimizer, reference, StateKind::kGradient, &Parameter::gradient, 1e-6,
                   "gradient after step");
      expect_state(optimizer, reference, StateKind::kExpAvg, &Parameter::exp_avg, 1e-6, "exp_avg");
      expect_state(optimizer, reference, StateKind::kExpAvgSq, &Parameter::exp_avg_sq, 2e-6,
                   "exp_avg_sq");
      expect_state(optimizer, reference, StateKind::kMaster, &Parameter::master, 1e-6, "master");
      expect_parameters_are_rounded_masters(optimizer, model);
      if (::testing::Test::HasFailure())
        break;  // every rank sees it at the same step or fails soon after
    }
    EXPECT_EQ(optimizer.steps_applied(), kSteps);
    optimizer.shutdown();
  });
}

class AgainstReference : public ::testing::TestWithParam<std::tuple<torch::Dtype, int>> {};

TEST_P(AgainstReference, TwelveStepsMatchDoublePrecision) {
  const auto [dtype, world_size] = GetParam();
  for (const int stage : {0, 1, 2}) {
    train_beside_reference({dtype, world_size, stage, false, 4096});
    train_beside_reference({dtype, world_size, stage, true, 64});
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, AgainstReference,
                         ::testing::Combine(::testing::Values(torch::kFloat, torch::kBFloat16,
                                                              torch::kHalf),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return std::string(c10::toString(std::get<0>(test.param))) + "World" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace zero
