// Checkpoints of any world size become checkpoints of any other.

#include "checkpoint/tools/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/names.h"
#include "checkpoint/rank_memory.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/diff.h"
#include "checkpoint/verify.h"
#include "model.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

using ::testing::IsEmpty;

constexpr int kMostRanks = 8;

struct Shape {
  const char* name;
  std::vector<std::int64_t> sizes;
  LayoutOptions options;
};

const Shape kShapes[] = {
    {"SmallBuckets", {1, 2, 3, 5, 6, 7, 57, 97, 1000}, {256, 64, 1}},
    {"OneBucket", {97, 57, 7, 6, 5, 3, 2, 1}, {1 << 20, 1 << 20, 2}},
    {"ParametersBeyondBuckets", {1000, 1, 1001, 999}, {512, 512, 64}},
    {"DefaultOptions", {9001, 57, 4096}, {}},
    {"OneElement", {1}, {256, 64, 1}},
};

Model model_of(const Shape& shape) {
  return make_model(shape.sizes, shape.options);
}

/// A store on a file system in memory, to look at its files.
struct Root {
  std::shared_ptr<testing::MemoryFileSystem> files = std::make_shared<testing::MemoryFileSystem>();
  std::unique_ptr<Store> store;

  Root() {
    Hdf5StoreOptions options;
    options.block_bytes = 256;
    store = make_hdf5_store(files, "/store", options);
  }
  std::string folder() const { return "/store/" + step_name(7); }
  std::vector<std::byte> content(const std::string& name) const {
    return files->content(folder() + "/" + name);
  }
};

ReshardOptions to_ranks(int world_size) {
  ReshardOptions options;
  options.world_size = world_size;
  options.memory = 1 << 20;
  return options;
}

/// Every byte but the manifest's, which holds the attempt.
void expect_equal_files(const Root& a, const Root& b) {
  const auto names = a.files->list(a.folder());
  ASSERT_EQ(names, b.files->list(b.folder()));
  for (const std::string& name : names) {
    if (name == kManifestName) continue;
    EXPECT_TRUE(a.content(name) == b.content(name)) << name;
  }
}

class ReshardShapes : public ::testing::TestWithParam<Shape> {};
class ReshardFiles : public ::testing::TestWithParam<Shape> {};

TEST_P(ReshardShapes, EveryElementSurvivesEveryPairOfWorldSizesInMemory) {
  const Model model = model_of(GetParam());
  for (int from = 1; from <= kMostRanks; ++from) {
    const auto source = make_memory_store();
    save_as_trainer(*source, model, from);
    for (int to = 1; to <= kMostRanks; ++to) {
      const auto destination = make_memory_store();
      reshard(*source->open(7), *destination, to_ranks(to));
      const auto reader = destination->open(7);
      ASSERT_EQ(reader->info().world_size, to);
      ASSERT_EQ(difference(*reader, model), "") << from << " -> " << to;
    }
  }
}

TEST_P(ReshardFiles, TheShardsAreThoseOfATrainerOfThatWorldSizeByteForByte) {
  const Model model = model_of(GetParam());
  std::vector<Root> roots(kMostRanks + 1);
  for (int world = 1; world <= kMostRanks; ++world)
    save_as_trainer(*roots[static_cast<std::size_t>(world)].store, model, world);
  for (int from = 1; from <= kMostRanks; ++from) {
    const auto source = roots[static_cast<std::size_t>(from)].store->open(7);
    for (int to = 1; to <= kMostRanks; ++to) {
      Root destination;
      reshard(*source, *destination.store, to_ranks(to));
      ASSERT_EQ(difference(*destination.store->open(7), model), "") << from << " -> " << to;
      for (int rank = 0; rank < to; ++rank) {
        ASSERT_TRUE(destination.content(shard_name(rank, to)) ==
                    roots[static_cast<std::size_t>(to)].content(shard_name(rank, to)))
            << from << " -> " << to << ", rank " << rank;
      }
      if (from == 3) {
        ASSERT_THAT(verify(*destination.files, destination.folder()).findings, IsEmpty());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReshardShapes, ::testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

// Three of them: making HDF5 files takes most of these tests' time.
INSTANTIATE_TEST_SUITE_P(Shapes, ReshardFiles,
                         ::testing::Values(kShapes[0], kShapes[2], kShapes[3]),
                         [](const auto& shape) { return std::string(shape.param.name); });

TEST(Reshard, ThereAndBackGivesTheBytesThatThereWere) {
  const Model model = model_of(kShapes[0]);
  for (const int over : {1, 3, 7}) {
    Root original, other, back;
    save_as_trainer(*original.store, model, 4);
    reshard(*original.store->open(7), *other.store, to_ranks(over));
    reshard(*other.store->open(7), *back.store, to_ranks(4));
    expect_equal_files(original, back);
  }
}

TEST(Reshard, RanksBlobsStayTheirsAndNoneIsLost) {
  const Model model = model_of(kShapes[4]);
  const auto four = make_memory_store(), two = make_memory_store(), three = make_memory_store(),
             six = make_memory_store();
  save_as_trainer(*four, model, 4);
  reshard(*four->open(7), *two, to_ranks(2));
  EXPECT_EQ(two->open(7)->rank_blobs(1), blobs_of(1));
  EXPECT_EQ(two->open(7)->common().surplus_rank_blobs,
            (std::map<int, std::map<std::string, Blob>>{{2, blobs_of(2)}, {3, blobs_of(3)}}));
  reshard(*two->open(7), *three, to_ranks(3));
  EXPECT_EQ(three->open(7)->rank_blobs(2), blobs_of(2));
  EXPECT_EQ(three->open(7)->common().surplus_rank_blobs,
            (std::map<int, std::map<std::string, Blob>>{{3, blobs_of(3)}}));
  reshard(*three->open(7), *six, to_ranks(6));
  const auto reader = six->open(7);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(reader->rank_blobs(rank), blobs_of(rank));
  for (int rank = 4; rank < 6; ++rank) EXPECT_THAT(reader->rank_blobs(rank), IsEmpty());
  EXPECT_THAT(reader->common().surplus_rank_blobs, IsEmpty());
}

/// Nobody of the new world ever held that; and no comparison minds.
TEST(Reshard, WhatTheOldRanksHeldInMemoryIsLeftOut) {
  Sample sample(7, 3);
  for (int rank = 0; rank < 3; ++rank)
    sample.rank(rank).blobs[std::string(kRankMemory)] = to_blob({1000 + rank, 5});
  const auto three = make_memory_store();
  save(*three, sample);
  for (const int world_size : {1, 2, 3, 4}) {
    const auto other = make_memory_store();
    reshard(*three->open(7), *other, to_ranks(world_size));
    const auto reader = other->open(7);
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(memory_of(reader->rank_blobs(rank), rank), std::nullopt) << rank;
      if (rank < 3) {
        EXPECT_EQ(reader->rank_blobs(rank).size(), sample.rank(rank).blobs.size() - 1);
      }
    }
    for (const auto& [rank, blobs] : reader->common().surplus_rank_blobs)
      EXPECT_EQ(memory_of(blobs, rank), std::nullopt) << rank;
    EXPECT_THAT(diff(*three->open(7), *reader), IsEmpty());
  }
}

TEST(Reshard, WhatRanksShareIsCopiedUnchanged) {
  Model model = model_of(kShapes[0]);
  model.common.applied_steps.assign(model.common.parameters.size(), 41);
  Root source, destination;
  save_as_trainer(*source.store, model, 3);
  const ReshardResult result = reshard(*source.store->open(7), *destination.store, to_ranks(5));
  EXPECT_THAT(result.commit.warnings, IsEmpty());
  const auto reader = destination.store->open(7);
  const CommonState& common = reader->common();
  EXPECT_EQ(common.step, 7);
  EXPECT_EQ(common.run_id, "model");
  EXPECT_EQ(common.stage, 2);
  EXPECT_EQ(common.applied_steps, model.common.applied_steps);
  EXPECT_EQ(common.groups, model.common.groups);
  EXPECT_EQ(common.scaler, model.common.scaler);
  EXPECT_EQ(common.counters, model.common.counters);
  EXPECT_EQ(common.blobs, model.common.blobs);
}

TEST(Reshard, FromOneKindOfStoreToAnother) {
  const Model model = model_of(kShapes[0]);
  Root source, back;
  const auto memory = make_memory_store();
  save_as_trainer(*source.store, model, 5);
  reshard(*source.store->open(7), *memory, to_ranks(2));
  reshard(*memory->open(7), *back.store, to_ranks(5));
  expect_equal_files(source, back);
}

TEST(Reshard, OptionsOutOfRangeAreRefused) {
  const auto source = make_memory_store(), destination = make_memory_store();
  save_as_trainer(*source, model_of(kShapes[4]), 2);
  const auto reader = source->open(7);
  for (const int world_size : {-1, 0, 65537}) {
    EXPECT_THROW(reshard(*reader, *destination, to_ranks(world_size)), ContractError);
  }
  ReshardOptions options = to_ranks(2);
  options.memory = (1 << 20) - 1;
  EXPECT_THROW(reshard(*reader, *destination, options), ContractError);
  EXPECT_THAT(destination->list().steps, IsEmpty());
}

TEST(Reshard, AnExistingStepIsRefusedEvenInTheSourcesOwnRoot) {
  const Model model = model_of(kShapes[4]);
  Root root;
  save_as_trainer(*root.store, model, 2);
  const auto before = root.content(kManifestName.data());
  EXPECT_THROW(reshard(*root.store->open(7), *root.store, to_ranks(3)), ContractError);
  EXPECT_TRUE(root.content(kManifestName.data()) == before);
  EXPECT_THAT(root.files->list("/store"), ::testing::ElementsAre(".lock", "LATEST", step_name(7)));
  root.files->unlink(root.folder() + "/" + shard_name(1, 2));
  const auto source = make_memory_store();
  save_as_trainer(*source, model, 2);
  EXPECT_THROW(reshard(*source->open(7), *root.store, to_ranks(3)), ContractError);
}

TEST(Reshard, WhatNoTrainerCanHaveWrittenIsAFormatError) {
  CommonState common;
  common.groups.resize(1);
  common.parameters = {{"count", {2}, DType::kInt64, 0, true, -1}};
  const std::vector<std::byte> bytes(16);
  const auto source = make_memory_store(), destination = make_memory_store();
  const auto writer = source->begin(common, 1);
  writer->put(0, {{{"value", DType::kInt64, {{0, 0, 2}}, {bytes}}}, {}});
  writer->commit();
  EXPECT_THROW(reshard(*source->open(0), *destination, to_ranks(2)), FormatError);
  EXPECT_THAT(destination->list().steps, IsEmpty());
}

TEST(Reshard, ManyRanksOfFewElements) {
  const Model model = model_of(kShapes[0]);
  const auto source = make_memory_store(), wide = make_memory_store(), back = make_memory_store();
  save_as_trainer(*source, model, 2);
  reshard(*source->open(7), *wide, to_ranks(300));
  EXPECT_EQ(difference(*wide->open(7), model), "");
  reshard(*wide->open(7), *back, to_ranks(1));
  EXPECT_EQ(difference(*back->open(7), model), "");
}

}  // namespace
}  // namespace zero::checkpoint
