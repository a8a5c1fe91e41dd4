#pragma once

/// What a transformer keeps between forward and backward, by the formulas of Korthikanti et al.
/// 2022, "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198), for
/// one rank without tensor parallelism.

#include <cstdint>

#include "libzero/estimate/transformer.h"

namespace zero {

/// What is not kept but computed once more in backward.
enum class Recompute {
  kNone,
  kAttention,  ///< Scores and probabilities: what grows with the square of the sequence.
  kLayers,     ///< Whole layers: their inputs alone are kept.
};

struct ActivationOptions {
  std::int64_t micro_batch = 1;  ///< Sequences per backward call.
  std::int64_t sequence = 0;     ///< Tokens of each; 0: the model's context.
  std::int64_t element_bytes = 2;
  Recompute recompute = Recompute::kNone;
  /// Attention in one kernel that keeps one fp32 number for each token and head instead of scores
  /// (at::scaled_dot_product_attention without dropout).
  bool fused_attention = false;
  bool dropout = true;  ///< Costs masks, and a second copy of the probabilities.
};

/// Bytes.
struct ActivationMemory {
  std::int64_t layers = 0;   ///< In 16 bits with dropout: s*b*h*(34 + 5*a*s/h) a layer.
  std::int64_t head = 0;     ///< Embedding's mask, last LayerNorm, output layer, fp32 logits.
  std::int64_t working = 0;  ///< Largest gradients of activations at any time.

  std::int64_t total() const noexcept { return layers + head + working; }
};

/// Throws ContractError unless layers, hidden and heads are known, hidden is a multiple of heads,
/// and sizes are positive and give less than 2^62 bytes. A vocabulary that is not known counts as
/// none.
ActivationMemory estimate_activations(const Transformer& model, const ActivationOptions& options);

}  // namespace zero
