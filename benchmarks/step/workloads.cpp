#include "workloads.h"

#include "examples/minigpt/model.h"
#include "libzero/base/error.h"

namespace zero::benchmark {
namespace {

class MlpImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kInput = 1280, kOutput = 1024, kBatch = 4;

  MlpImpl(std::int64_t hidden, std::int64_t depth) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(depth) + 3, hidden);
    widths.front() = kInput;
    widths.back() = kOutput;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      layers_.push_back(register_module("layer" + std::to_string(i),
                                        torch::nn::Linear(widths[i], widths[i + 1])));
    }
  }

  torch::Tensor loss(torch::Tensor x) {
    x = torch::relu(layers_.front()(x));
    // Residual, so that gradients of deep stacks stay normal numbers: subnormal ones halve the
    // speed of AdamW.
    const double share = 1.0 / static_cast<double>(layers_.size());
    for (std::size_t i = 1; i + 1 < layers_.size(); ++i) x = x + torch::relu(layers_[i](x)) * share;
    return layers_.back()(x).square().mean();
  }

 private:
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

Workload minigpt_workload() {
  minigpt::ModelOptions options;
  options.layers = 6;
  options.width = 384;
  options.heads = 6;
  minigpt::MiniGpt model(options);
  return {model.ptr(), [model](const torch::Tensor& micro) mutable { return model->loss(micro); },
          [options] {
            return torch::randint(0, minigpt::ModelOptions::kVocabulary, {4, options.context + 1},
                                  torch::kLong);
          }};
}

Workload mlp_workload(std::int64_t hidden, std::int64_t depth) {
  Mlp model(hidden, depth);
  return {model.ptr(), [model](const torch::Tensor& micro) mutable { return model->loss(micro); },
          [] {
            return torch::randn({MlpImpl::kBatch, MlpImpl::kInput});
          }};
}

}  // namespace

Workload make_workload(const std::string& name, std::int64_t hidden, std::int64_t depth) {
  if (name == "minigpt") return minigpt_workload();
  if (name == "mlp") return mlp_workload(hidden, depth);
  throw ContractError("there are the workloads minigpt and mlp, not this one: " + name);
}

}  // namespace zero::benchmark
