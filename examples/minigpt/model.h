#pragma once

/// MiniGPT: a byte-level decoder in the shape of GPT-2, small enough to train on two CPU cores.

#include <torch/torch.h>

#include <cstdint>

namespace minigpt {

struct ModelOptions {
  std::int64_t layers = 4;
  std::int64_t width = 128;  ///< A multiple of heads.
  std::int64_t heads = 4;
  std::int64_t context = 128;  ///< Longest sequence.
  double dropout = 0.0;        ///< In training: of embeddings, attention and residual branches.
  bool recompute = false;  ///< Keep the blocks' inputs only; compute the rest again in backward.

  static constexpr std::int64_t kVocabulary = 256;
};

/// One pre-LayerNorm block: x + proj(attention(ln1(x))), then x + fc_out(gelu(fc(ln2(x)))).
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const ModelOptions& options);
  torch::Tensor forward(torch::Tensor x);

 private:
  std::int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm ln1{nullptr}, ln2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, fc{nullptr}, fc_out{nullptr};
};
TORCH_MODULE(Block);

/// The output layer, tied: it registers the embedding's own tensor, so that both names stand for
/// one parameter.
class TiedHeadImpl : public torch::nn::Module {
 public:
  explicit TiedHeadImpl(const torch::Tensor& embedding);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight;
};
TORCH_MODULE(TiedHead);

class MiniGptImpl : public torch::nn::Module {
 public:
  /// Draws normal(0, 0.02) weights from LibTorch's default generator; proj and fc_out are divided
  /// by sqrt(2 * layers).
  explicit MiniGptImpl(const ModelOptions& options);

  /// tokens: int64 [batch, time], time <= context. Returns logits [batch, time, 256] in the
  /// parameters' dtype.
  torch::Tensor forward(const torch::Tensor& tokens);

  /// windows: int64 [batch, time + 1]. Mean cross-entropy of each next byte, in nats, a float32
  /// scalar.
  torch::Tensor loss(const torch::Tensor& windows);

 private:
  ModelOptions options_;
  torch::nn::Embedding token_embedding{nullptr}, position_embedding{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm ln_f{nullptr};
  TiedHead head{nullptr};
};
TORCH_MODULE(MiniGpt);

}  // namespace minigpt
