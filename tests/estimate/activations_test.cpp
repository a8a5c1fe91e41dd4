#include "libzero/estimate/activations.h"

#include <gtest/gtest.h>

#include "libzero/base/error.h"

namespace zero {
namespace {

// The 22 billion parameters of the paper's table 3: 48 layers, 6144 wide, 64 heads, 2048 tokens.
constexpr Transformer kPaper22B{
    .layers = 48, .hidden = 6144, .heads = 64, .vocabulary = 51200, .context = 2048};

TEST(Activations, AreThePapersFormulaIn16Bits) {
  const std::int64_t s = 2048, b = 4, h = 6144, a = 64;
  const ActivationMemory got = estimate_activations(kPaper22B, {.micro_batch = b});
  EXPECT_EQ(got.layers, 48 * (s * b * h * 34 + 5 * a * s * s * b));
  EXPECT_EQ(got.head, s * b * h * 5 + 4 * s * b * 51200);
}

TEST(Activations, RecomputingAttentionLeavesThePapers34) {
  const std::int64_t s = 2048, h = 6144;
  const auto got = estimate_activations(kPaper22B, {.recompute = Recompute::kAttention});
  EXPECT_EQ(got.layers, 48 * s * h * 34);
}

TEST(Activations, RecomputingLayersKeepsTheirInputsAndOneWholeLayer) {
  const std::int64_t s = 2048, h = 6144, a = 64;
  const auto got = estimate_activations(kPaper22B, {.recompute = Recompute::kLayers});
  EXPECT_EQ(got.layers, 48 * 2 * s * h + (34 * s * h + 5 * a * s * s));
}

TEST(Activations, Fp32DoublesAllButMasksAndLogits) {
  const std::int64_t s = 2048, h = 6144, a = 64;
  const auto got = estimate_activations(kPaper22B, {.element_bytes = 4});
  EXPECT_EQ(got.layers, 48 * (66 * s * h + 9 * a * s * s));
  EXPECT_EQ(got.head, 9 * s * h + 4 * s * 51200);
}

TEST(Activations, FusedAttentionKeepsOneNumberForEachTokenAndHead) {
  const auto got =
      estimate_activations(kPaper22B, {.sequence = 100, .fused_attention = true, .dropout = false});
  EXPECT_EQ(got.layers, 48 * (100 * 6144 * 32 + 100 * 64 * 4));
}

TEST(Activations, WorkingMemoryIsTheLargerOfPerceptronAndLogits) {
  Transformer model = kPaper22B;
  EXPECT_EQ(estimate_activations(model, {}).working, 2 * 2048 * 51200 * 4);
  model.vocabulary = 0;
  EXPECT_EQ(estimate_activations(model, {}).working, 8 * 2048 * 6144 * 2);
}

TEST(Activations, WhatIsMissingOrTooLargeIsRefused) {
  for (const auto& break_it : std::vector<void (*)(Transformer&, ActivationOptions&)>{
           [](Transformer&m, ActivationOptions&) { m.layers = 0; },
           [](Transformer&m, ActivationOptions&) { m.hidden = 0; },
           [](Transformer&m, ActivationOptions&) { m.heads = 0; },
           [](Transformer&m, ActivationOptions&) { m.heads = 7; },
           [](Transformer&m, ActivationOptions&) { m.context = 0; },
           [](Transformer&m, ActivationOptions&) { m.context = std::int64_t{1} << 61; },
           [](Transformer&, ActivationOptions&o) { o.micro_batch = 0; },
           [](Transformer&, ActivationOptions&o) { o.micro_batch = std::int64_t{1} << 50; }}) {
    Transformer model = kPaper22B;
    ActivationOptions options;
    break_it(model, options);
    EXPECT_THROW(estimate_activations(model, options), ContractError);
  }
}

}  // namespace
}  // namespace zero
