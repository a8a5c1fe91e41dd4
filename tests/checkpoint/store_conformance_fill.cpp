// States that a function gives part by part instead of memory.

#include <gmock/gmock.h>

#include <cstring>
#include <stdexcept>

#include "sample.h"
#include "store_conformance.h"

namespace zero::checkpoint {
namespace {

/// What a view's function was asked for.
struct Asked {
  std::vector<Extent> parts;
  std::size_t largest = 0;
};

/// Gives the view's pieces by a function. REQUIRES that their memory and `asked` outlive it.
void stream(StateView& view, Asked& asked) {
  view.fill = [extents = view.extents, pieces = std::move(view.pieces), &asked,
               width = size_of(view.dtype)](const Extent& part, std::span<std::byte> dst) {
    asked.parts.push_back(part);
    asked.largest = std::max(asked.largest, dst.size());
    ASSERT_EQ(dst.size(), static_cast<std::size_t>((part.end - part.begin) * width));
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const Extent& extent = extents[i];
      if (extent.parameter != part.parameter || part.begin < extent.begin || part.end > extent.end)
        continue;
      std::memcpy(dst.data(), pieces[i].data() + (part.begin - extent.begin) * width, dst.size());
      return;
    }
    FAIL() << "a part of no extent was asked for: " << part.parameter;
  };
  view.pieces.clear();
}

/// Joins neighbours: what was asked for must be the extents, in order, each element once.
std::vector<Extent> joined(const std::vector<Extent>& parts) {
  std::vector<Extent> result;
  for (const Extent& part : parts) {
    if (!result.empty() && result.back().parameter == part.parameter &&
        result.back().end == part.begin) {
      result.back().end = part.end;
    } else {
      result.push_back(part);
    }
  }
  return result;
}

TEST_P(StoreConformance, WhatFunctionsGiveIsSavedLikeMemory) {
  for (int world_size = 1; world_size <= 4; ++world_size) {
    Sample sample(world_size, world_size);
    const auto writer = store_->begin(sample.common(), world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      std::vector<Asked> asked(sample.rank(rank).states.size());
      for (std::size_t i = 0; i < asked.size(); ++i) stream(sample.rank(rank).states[i], asked[i]);
      writer->put(rank, sample.rank(rank));
      for (std::size_t i = 0; i < asked.size(); ++i) {
        EXPECT_EQ(joined(asked[i].parts), sample.rank(rank).states[i].extents);
      }
    }
    writer->commit();
    EXPECT_EQ(difference(*store_->open(world_size), world_size, world_size), "");
  }
}

TEST_P(StoreConformance, FunctionsAreAskedForBoundedParts) {
  constexpr std::int64_t kElements = 200'001;
  CommonState common;
  common.parameters = {{"w", {kElements}, DType::kFloat32, -1, false, -1}};
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 3;
  Asked asked;
  RankState state;
  state.states = {
      {"value", DType::kFloat32, {{0, 0, kElements}}, {std::as_bytes(std::span(values))}}};
  stream(state.states[0], asked);
  const auto writer = store_->begin(common, 1);
  writer->put(0, state);
  writer->commit();
  EXPECT_EQ(joined(asked.parts), state.states[0].extents);
  EXPECT_LE(asked.largest, kMaxPartBytes);
  std::vector<float> got(kElements);
  store_->open(0)->read(0, "value", 0, kElements, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, values);
}

TEST_P(StoreConformance, WhatAFunctionThrowsEndsTheSave) {
  Sample sample(5, 1);
  const auto writer = store_->begin(sample.common(), 1);
  RankState state = sample.rank(0);
  state.states[1].pieces.clear();
  state.states[1].fill = [](const Extent&, std::span<std::byte>) {
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(writer->put(0, state), std::runtime_error);
  EXPECT_THROW(writer->put(0, sample.rank(0)), ContractError);
  EXPECT_THROW(writer->commit(), ContractError);
  EXPECT_THROW(store_->open(5), ContractError);
}

TEST_P(StoreConformance, AStateIsGivenInOneWay) {
  Sample sample(5, 1);
  const auto writer = store_->begin(sample.common(), 1);
  RankState state = sample.rank(0);
  state.states[0].fill = [](const Extent&, std::span<std::byte>) { FAIL(); };
  EXPECT_THROW(writer->put(0, state), ContractError);
  EXPECT_NO_THROW(writer->put(0, sample.rank(0)));
}

}  // namespace
}  // namespace zero::checkpoint
