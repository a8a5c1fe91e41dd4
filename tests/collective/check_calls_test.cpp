#include "libzero/collective/check_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libzero/base/error.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

float memory[32];

ConstBuffer read(std::int64_t offset, std::int64_t count) {
  return {memory + offset, count, DType::kFloat32};
}

Buffer write(std::int64_t offset, std::int64_t count) {
  return {memory + offset, count, DType::kFloat32};
}

template <typename Check>
void expect_refused(Check check, const std::string& part) {
  EXPECT_THAT(check, ThrowsMessage<ContractError>(
                         AllOf(HasSubstr(part), HasSubstr("[bucket 3, layer.weight]"))));
}

constexpr std::string_view kLabel = "bucket 3, layer.weight";

TEST(CheckReduceScatter, NamesTheCountsThatDoNotFit) {
  expect_refused([] { check_reduce_scatter(read(0, 9), write(16, 4), kLabel, 2); },
                 "9 is not 2 * 4");
}

TEST(CheckReduceScatter, RefusesCountsThatOverflow) {
  expect_refused([] { check_reduce_scatter(read(0, 8), write(16, kHuge / 4), kLabel, 16); },
                 "is not 16 *");
  expect_refused([] { check_reduce_scatter(read(0, kHuge), write(16, 1), kLabel, 2); },
                 "more than memory can hold");
}

TEST(CheckReduceScatter, RefusesAnOutputThatIsNotFloat32) {
  expect_refused(
      [] {
        check_reduce_scatter(read(0, 4), {memory + 16, 2, DType::kBFloat16}, kLabel, 2);
      },
      "bfloat16");
}

TEST(CheckReduceScatter, NeighboursDoNotOverlap) {
  check_reduce_scatter(read(0, 8), write(8, 4), kLabel, 2);
  check_reduce_scatter(read(4, 8), write(0, 4), kLabel, 2);
  expect_refused([] { check_reduce_scatter(read(0, 8), write(7, 4), kLabel, 2); }, "overlap");
  expect_refused([] { check_reduce_scatter(read(3, 8), write(0, 4), kLabel, 2); }, "overlap");
}

TEST(CheckAllGather, TakesItsOwnSliceInPlaceAndNoOther) {
  check_all_gather(read(4, 4), write(0, 8), kLabel, 1, 2);
  check_all_gather(read(8, 4), write(0, 8), kLabel, 1, 2);
  expect_refused([] { check_all_gather(read(0, 4), write(0, 8), kLabel, 1, 2); }, "rank 1");
  expect_refused([] { check_all_gather(read(3, 4), write(0, 8), kLabel, 1, 2); }, "rank 1");
}

TEST(CheckAllGather, RefusesTwoTypes) {
  expect_refused(
      [] {
        check_all_gather({memory, 1, DType::kInt64}, write(8, 2), kLabel, 0, 2);
      },
      "int64 is not float32");
}

TEST(CheckAllReduce, RefusesWhatIsNoTypeAndNoReduction) {
  expect_refused(
      [] {
        check_all_reduce({memory, 1, static_cast<DType>(99)}, ReduceOp::kSum, kLabel);
      },
      "99");
  expect_refused([] { check_all_reduce(write(0, 1), static_cast<ReduceOp>(7), kLabel); }, "7");
}

TEST(CheckBroadcast, NamesRootAndWorld) {
  expect_refused([] { check_broadcast(write(0, 1), -1, kLabel, 3); }, "-1 is not in 0..2");
}

TEST(CheckBuffers, NothingNeedsNoMemory) {
  check_broadcast({nullptr, 0, DType::kFloat32}, 0, kLabel, 1);
  check_reduce_scatter({nullptr, 0, DType::kFloat32}, {nullptr, 0, DType::kFloat32}, kLabel, 3);
  check_all_gather({nullptr, 0, DType::kUInt8}, {nullptr, 0, DType::kUInt8}, kLabel, 1, 3);
}

}  // namespace
}  // namespace zero
