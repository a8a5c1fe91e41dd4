#include "libzero/estimate/transformer.h"

#include <gtest/gtest.h>

#include "libzero/base/error.h"
#include "libzero/estimate/memory_estimate.h"

namespace zero {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;

TEST(Transformers, Gpt2SmallHasItsPublishedNumberOfParameters) {
  const auto rows = transformer_parameters(
      {.layers = 12, .hidden = 768, .heads = 12, .vocabulary = 50257, .context = 1024},
      DType::kFloat32);
  EXPECT_EQ(elements_of(rows), 124439808);
}

TEST(Transformers, AMeasureThatIsMissingOrHugeIsRefused) {
  const Transformer whole{.layers = 2, .hidden = 8, .vocabulary = 9, .context = 4};
  for (auto member : {&Transformer::layers, &Transformer::hidden, &Transformer::vocabulary,
                      &Transformer::context}) {
    for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
      Transformer model = whole;
      model.*member = wrong;
      EXPECT_THROW(transformer_parameters(model, DType::kFloat32), ContractError) << wrong;
    }
  }
  EXPECT_THROW(transformer_parameters(
                   {.layers = 65536, .hidden = 1 << 28, .vocabulary = 1 << 28, .context = 1},
                   DType::kFloat32),
               ContractError);
}

TEST(Transformers, AnonymousModelsHaveExactlyTheNumberAskedFor) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{7'000'000'000}, (std::int64_t{1} << 24) + 1, kMost}) {
    const auto rows = anonymous_parameters(count, DType::kBFloat16);
    EXPECT_EQ(elements_of(rows), count);
    EXPECT_LE(rows.size(), 65536u);
  }
  EXPECT_THROW(anonymous_parameters(0, DType::kFloat32), ContractError);
  EXPECT_THROW(anonymous_parameters(kMost + 1, DType::kFloat32), ContractError);
}

TEST(Transformers, TheLargestModelOnTheLargestWorldIsStillEstimated) {
  const Layout layout(anonymous_parameters(kMost, DType::kFloat32), {});
  const MemoryEstimate got = estimate_memory(layout, {.stage = 0, .world_size = 65536});
  EXPECT_EQ(got.report.parameters, 4 * kMost);
  EXPECT_EQ(got.report.exp_avg, 4 * kMost);
  EXPECT_GT(got.total(), 16 * kMost);
}

}  // namespace
}  // namespace zero
