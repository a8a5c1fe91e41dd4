#include "libzero/estimate/activations.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"
#include "libzero/estimate/checked.h"

namespace zero {
namespace {

constexpr std::int64_t kFp32 = 4;

// Tensors of sequence x batch x hidden elements that one layer keeps. Attention: its input,
// queries, keys, values, the projection's input. Perceptron: its input, 4 wide before and after the
// activation function. Two inputs of LayerNorm. With 2 bytes an element these are the paper's 34
// but for the two masks, of one byte.
constexpr std::int64_t kKept = 5 + 9 + 2;
constexpr std::int64_t kMasks = 2;

// While a layer runs backward: gradients before and after the activation function, each 4 wide.
constexpr std::int64_t kWorking = 8;

void require_known(const char* name, std::int64_t value) {
  ZERO_REQUIRE(value > 0, std::string("estimate: activations need positive layers, hidden, heads, "
                                      "sequence and micro-batch: ") +
                              name + " = " + std::to_string(value));
}

struct Sizes {
  std::int64_t tokens;  // sequence x batch
  std::int64_t stream;  // x hidden: elements of the residual stream
  std::int64_t scores;  // heads x sequence x tokens
};

/// What grows with the square of the sequence, or stands for it.
std::int64_t attention_bytes(const Transformer& model, const ActivationOptions& options,
                             const Sizes& sizes) {
  if (options.fused_attention) return size_product({sizes.tokens, model.heads, kFp32});
  if (options.recompute == Recompute::kAttention) return 0;
  const std::int64_t item = options.element_bytes;
  return size_product({sizes.scores, options.dropout ? 2 * item + 1 : item});
}

std::int64_t layer_bytes(const Transformer& model, const ActivationOptions& options,
                         const Sizes& sizes) {
  const std::int64_t item = kKept * options.element_bytes + (options.dropout ? kMasks : 0);
  return size_sum({size_product({sizes.stream, item}), attention_bytes(model, options, sizes)});
}

}  // namespace

ActivationMemory estimate_activations(const Transformer& model, const ActivationOptions& options) {
  const std::int64_t sequence = options.sequence > 0 ? options.sequence : model.context;
  require_known("layers", model.layers);
  require_known("hidden", model.hidden);
  require_known("heads", model.heads);
  require_known("sequence", sequence);
  require_known("micro-batch", options.micro_batch);
  ZERO_REQUIRE(model.hidden % model.heads == 0,
               "estimate: hidden must be a multiple of heads: " + std::to_string(model.hidden) +
                   " and " + std::to_string(model.heads));
  const std::int64_t item = options.element_bytes;
  const std::int64_t tokens = size_product({sequence, options.micro_batch});
  const Sizes sizes{tokens, size_product({tokens, model.hidden}),
                    size_product({model.heads, sequence, tokens})};
  const std::int64_t whole_layer = layer_bytes(model, options, sizes);
  const std::int64_t logits = size_product({tokens, model.vocabulary, kFp32});

  ActivationMemory memory;
  memory.layers = options.recompute == Recompute::kLayers
                      ? size_sum({size_product({model.layers, sizes.stream, item}), whole_layer})
                      : size_product({model.layers, whole_layer});
  memory.head =
      size_sum({size_product({sizes.stream, 2 * item + (options.dropout ? 1 : 0)}), logits});
  memory.working =
      std::max(size_product({2, logits}), size_product({sizes.stream, kWorking, item}));
  return memory;
}

}  // namespace zero
