#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "libzero/base/error.h"
#include "libzero/layout/layout.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ParameterSpec spec(std::string name, std::vector<std::int64_t> shape = {2}) {
  return {.name = std::move(name), .shape = std::move(shape)};
}

std::string error_of(const std::vector<ParameterSpec>& parameters,
                     const LayoutOptions& options = {}) {
  try {
    Layout layout(parameters, options);
  } catch (const ContractError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Validation, AnEmptyNameIsRefusedWithItsIndex) {
  EXPECT_THAT(error_of({spec("a"), spec("")}), AllOf(HasSubstr("no name"), HasSubstr("index 1")));
}

TEST(Validation, ARepeatedNameIsRefusedWithBothIndices) {
  EXPECT_THAT(error_of({spec("w"), spec("b"), spec("w")}),
              AllOf(HasSubstr("same name"), HasSubstr("w at indices 0 and 2")));
}

TEST(Validation, ANegativeDimensionIsRefusedByName) {
  EXPECT_THAT(error_of({spec("bad", {2, -1})}),
              AllOf(HasSubstr("negative"), HasSubstr("bad [2, -1]")));
  EXPECT_THAT(error_of({spec("bad", {0, -1})}), HasSubstr("negative"));
}

TEST(Validation, MoreThan2To62ElementsAreRefusedByName) {
  const std::int64_t half = std::int64_t{1} << 31;
  EXPECT_THAT(error_of({spec("bad", {half, half, 2})}), AllOf(HasSubstr("2^62"), HasSubstr("bad")));
  EXPECT_EQ(spec("edge", {half, half}).numel(), std::int64_t{1} << 62);
  EXPECT_EQ(spec("empty", {half, half, half, 0}).numel(), 0);
  EXPECT_EQ(spec("scalar", {}).numel(), 1);
}

TEST(Validation, ATrainableParameterMustBeFloating) {
  ParameterSpec counter = spec("counter");
  counter.dtype = DType::kInt64;
  EXPECT_THAT(error_of({counter}), AllOf(HasSubstr("counter int64"), HasSubstr("freeze")));
  counter.trainable = false;
  EXPECT_EQ(error_of({counter}), "no error");
}

TEST(Validation, AnUnknownDtypeIsRefusedEvenWhenFrozen) {
  ParameterSpec odd = spec("odd");
  odd.dtype = static_cast<DType>(99);
  odd.trainable = false;
  EXPECT_THAT(error_of({odd}), AllOf(HasSubstr("odd"), HasSubstr("99")));
}

TEST(Validation, AnAliasMustReferToAnEarlierOwner) {
  ParameterSpec tied = spec("tied");
  for (const std::int32_t wrong : {-2, 1, 2, 7}) {
    tied.alias_of = wrong;
    EXPECT_THAT(error_of({spec("a"), tied, spec("c")}),
                AllOf(HasSubstr("earlier"), HasSubstr("tied"), HasSubstr(std::to_string(wrong))));
  }
  tied.alias_of = 0;
  ParameterSpec second = spec("second");
  second.alias_of = 1;
  EXPECT_THAT(error_of({spec("a"), tied, second}),
              AllOf(HasSubstr("another alias"), HasSubstr("second")));
}

TEST(Validation, AnAliasMustHaveItsOwnersShapeAndDtype) {
  ParameterSpec tied = spec("tied", {1, 2});
  tied.alias_of = 0;
  EXPECT_THAT(error_of({spec("a", {2, 1}), tied}), AllOf(HasSubstr("differs"), HasSubstr("tied")));
  tied = spec("tied");
  tied.alias_of = 0;
  tied.dtype = DType::kBFloat16;
  EXPECT_THAT(error_of({spec("a"), tied}), HasSubstr("differs"));
}

TEST(Validation, OptionsMustBePositiveAndTheErrorNamesTheOption) {
  EXPECT_THAT(error_of({}, {.bucket_bytes = 0}), HasSubstr(": bucket_bytes is 0"));
  EXPECT_THAT(error_of({}, {.first_bucket_bytes = -1}), HasSubstr("first_bucket_bytes is -1"));
  EXPECT_THAT(error_of({}, {.shard_alignment = 0}), HasSubstr("shard_alignment is 0"));
  EXPECT_THAT(error_of({}, {.shard_alignment = kMaxShardAlignment + 1}), HasSubstr("too large"));
}

TEST(Describe, SaysAllThatMustAgree) {
  ParameterSpec p = spec("blocks.0.fc.weight", {512, 128});
  EXPECT_EQ(describe(p), "blocks.0.fc.weight float32 [512, 128] group 0");
  p = {.name = "s",
       .shape = {},
       .dtype = DType::kFloat16,
       .group = 2,
       .trainable = false,
       .alias_of = 3};
  EXPECT_EQ(describe(p), "s float16 [] group 2 frozen alias of 3");
}

}  // namespace
}  // namespace zero
