#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/adamw.h>

#include <memory>
#include <string>

#include "cases.h"

namespace zero::benchmark {
namespace {

struct Tensors {
  explicit Tensors(std::int64_t n)
      : parameter(at::randn({n})),
        gradient(at::randn({n})),
        exp_avg(at::zeros({n})),
        exp_avg_sq(at::zeros({n})),
        step(at::ones({})) {}
  at::Tensor parameter, gradient, exp_avg, exp_avg_sq, step;
};

void fused(Tensors& t) {
  at::_fused_adamw_({t.parameter}, {t.gradient}, {t.exp_avg}, {t.exp_avg_sq}, {}, {t.step}, 1e-3,
                    0.9, 0.999, 0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
}

/// What a trainer with 16-bit parameters and fp32 masters does around an optimizer that knows one
/// dtype only.
struct MixedTensors {
  explicit MixedTensors(std::int64_t n)
      : masters(n),
        gradient(masters.gradient.to(at::kBFloat16)),
        parameter(at::empty({n}, at::kBFloat16)) {}
  Tensors masters;
  at::Tensor gradient, parameter;
};

Contender ours(Streams& streams, bool mixed) {
  const AdamWRun run = streams.run(mixed ? DType::kBFloat16 : DType::kFloat32, mixed);
  const AdamWConstants constants = adamw_constants({}, 10);
  return {nullptr, [=] { adamw_step(constants, run); }, nullptr, /*short_and_busy=*/true};
}

}  // namespace

std::vector<Comparison> torch_cases(Streams& streams, const std::string& suffix) {
  const std::int64_t n = streams.n();
  auto plain = std::make_shared<Tensors>(n);
  plain->parameter.mutable_grad() = plain->gradient;
  auto optimizer = std::make_shared<torch::optim::AdamW>(std::vector<at::Tensor>{plain->parameter},
                                                         torch::optim::AdamWOptions(1e-3));
  auto mixed = std::make_shared<MixedTensors>(n);
  const auto torchs = [](auto function) {
    return Contender{nullptr, function, nullptr, /*short_and_busy=*/true};
  };
  return {
      {"kernels.torch_adamw" + suffix, "one step against torch::optim::AdamW, fp32", 0.25,
       ours(streams, false), torchs([plain, optimizer] { optimizer->step(); })},
      {"kernels.torch_fused_adamw" + suffix, "one step against torch's fused AdamW, fp32", 1.0,
       ours(streams, false), torchs([plain] { fused(*plain); })},
      {"kernels.cast_fused_cast" + suffix,
       "one step with bf16 parameters against cast, torch's fused AdamW, cast", 1 / 1.5,
       ours(streams, true), torchs([mixed] {
         mixed->masters.gradient.copy_(mixed->gradient);
         fused(mixed->masters);
         mixed->parameter.copy_(mixed->masters.parameter);
       })},
  };
}

}  // namespace zero::benchmark
