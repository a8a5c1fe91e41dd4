#include "libzero/base/dtype.h"

#include <gtest/gtest.h>

#include "libzero/base/error.h"

namespace zero {
namespace {

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kFloat32), 4);
  EXPECT_EQ(size_of(DType::kBFloat16), 2);
  EXPECT_EQ(size_of(DType::kFloat16), 2);
  EXPECT_EQ(size_of(DType::kInt64), 8);
  EXPECT_EQ(size_of(DType::kUInt8), 1);
  EXPECT_EQ(name_of(DType::kBFloat16), "bfloat16");
}

TEST(DType, UnknownValueIsRefusedNotGuessed) {
  const auto unknown = static_cast<DType>(77);
  EXPECT_THROW(size_of(unknown), ContractError);
  EXPECT_EQ(name_of(unknown), "unknown");
}

}  // namespace
}  // namespace zero
