#pragma once

/// Models of which no more is known than their measures.

#include <cstdint>
#include <span>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero {

/// A decoder in the shape of GPT-2. 0: not known.
struct Transformer {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;      ///< Width of the residual stream.
  std::int64_t heads = 0;       ///< Of attention.
  std::int64_t vocabulary = 0;  ///< Tokens.
  std::int64_t context = 0;     ///< Tokens of the longest sequence.
};

inline constexpr std::int64_t kMaxTransformerLayers = 65536;

/// The rows of such a model: token and position embeddings; for each layer two LayerNorms, the
/// matrices of attention (hidden x 3 hidden, hidden x hidden) and of the perceptron (hidden x
/// 4 hidden, 4 hidden x hidden) with their biases; a last LayerNorm; an output layer that is the
/// token embedding. Heads do not matter. Throws ContractError unless layers (at most
/// kMaxTransformerLayers), hidden, vocabulary and context are positive and at most 2^28.
std::vector<ParameterSpec> transformer_parameters(const Transformer& model, DType dtype);

/// `count` elements (at most 2^50) in rows of 2^24, for models of which nothing is known but their
/// size. Throws ContractError unless it is positive.
std::vector<ParameterSpec> anonymous_parameters(std::int64_t count, DType dtype);

/// Elements of all rows but aliases. Throws ContractError beyond 2^50.
std::int64_t elements_of(std::span<const ParameterSpec> parameters);

}  // namespace zero
