#include "examples/minigpt/model.h"

#include <cmath>

#include "libzero/train/recompute.h"

namespace minigpt {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace {

/// Without dropout it draws nothing.
torch::Tensor drop(const torch::Tensor& x, double probability, bool is_training) {
  return probability > 0 && is_training ? torch::dropout(x, probability, /*train=*/true) : x;
}

}  // namespace

BlockImpl::BlockImpl(const ModelOptions& options)
    : heads_(options.heads), dropout_(options.dropout) {
  const std::int64_t width = options.width;
  ln1 = register_module("ln1", nn::LayerNorm(nn::LayerNormOptions({width})));
  qkv = register_module("qkv", nn::Linear(width, 3 * width));
  proj = register_module("proj", nn::Linear(width, width));
  ln2 = register_module("ln2", nn::LayerNorm(nn::LayerNormOptions({width})));
  fc = register_module("fc", nn::Linear(width, 4 * width));
  fc_out = register_module("fc_out", nn::Linear(4 * width, width));
}

torch::Tensor BlockImpl::forward(torch::Tensor x) {
  const auto batch = x.size(0), time = x.size(1), width = x.size(2);
  auto heads =
      qkv(ln1(x)).view({batch, time, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  auto attended =
      at::scaled_dot_product_attention(heads[0], heads[1], heads[2], /*attn_mask=*/{},
                                       is_training() ? dropout_ : 0.0, /*is_causal=*/true);
  const auto mixed = proj(attended.transpose(1, 2).reshape({batch, time, width}));
  x = x + drop(mixed, dropout_, is_training());
  return x + drop(fc_out(torch::gelu(fc(ln2(x)))), dropout_, is_training());
}

TiedHeadImpl::TiedHeadImpl(const torch::Tensor& embedding)
    : weight(register_parameter("weight", embedding)) {}

torch::Tensor TiedHeadImpl::forward(const torch::Tensor& x) {
  return torch::linear(x, weight);
}

MiniGptImpl::MiniGptImpl(const ModelOptions& options) : options_(options) {
  token_embedding =
      register_module("token_embedding", nn::Embedding(ModelOptions::kVocabulary, options.width));
  position_embedding =
      register_module("position_embedding", nn::Embedding(options.context, options.width));
  blocks = register_module("blocks", nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) blocks->push_back(Block(options));
  ln_f = register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({options.width})));
  head = register_module("head", TiedHead(token_embedding->weight));

  torch::NoGradGuard no_grad;
  const double residual_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (auto& parameter :
       named_parameters()) {  // the tied matrix is drawn twice; the second draw stands
    const std::string& name = parameter.key();
    torch::Tensor& value = parameter.value();
    if (name.ends_with(".bias")) {
      value.zero_();
    } else if (value.dim() > 1) {
      const bool is_residual = name.ends_with("proj.weight") || name.ends_with("fc_out.weight");
      value.normal_(0.0, 0.02 * (is_residual ? residual_scale : 1.0));
    }
  }
}

torch::Tensor MiniGptImpl::forward(const torch::Tensor& tokens) {
  auto positions = torch::arange(tokens.size(1), tokens.options());
  auto x = token_embedding(tokens) + position_embedding(positions);
  x = drop(x, options_.dropout, is_training());
  for (const auto& item : *blocks) {
    auto* const block = item->as<Block>();
    x = options_.recompute
            ? zero::recompute([block](const torch::Tensor& in) { return block->forward(in); }, x)
            : block->forward(x);
  }
  return head(ln_f(x));
}

torch::Tensor MiniGptImpl::loss(const torch::Tensor& windows) {
  const auto time = windows.size(1) - 1;
  auto logits = forward(windows.narrow(1, 0, time)).to(torch::kFloat);
  return F::cross_entropy(logits.reshape({-1, ModelOptions::kVocabulary}),
                          windows.narrow(1, 1, time).reshape({-1}));
}

}  // namespace minigpt
