// Digests tell contents apart and worlds not.

#include <gtest/gtest.h>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/digest_builder.h"
#include "model.h"

namespace zero::checkpoint {
namespace {

Model small_model() {
  return make_model({1, 2, 3, 5, 6, 7, 57, 97, 1000}, {256, 64, 1});
}

TEST(Digests, AreTheSameAtEveryWorldSizeInEveryStore) {
  const Model model = small_model();
  Digests expected;
  for (int world_size = 1; world_size <= 8; ++world_size) {
    Hdf5StoreOptions options;
    options.block_bytes = 64;
    const auto memory = make_memory_store();
    const auto hdf5 =
        make_hdf5_store(std::make_shared<testing::MemoryFileSystem>(), "/store", options);
    for (Store* store : {memory.get(), hdf5.get()}) {
      save_as_trainer(*store, model, world_size);
      const Digests digests = digests_of(*store->open(7));
      if (expected.empty()) expected = digests;
      EXPECT_EQ(digests, expected) << world_size;
    }
  }
  EXPECT_EQ(expected.size(), 6u);  // master, two moments, value, ema, scratch.
}

// By the definition alone, without the code under test.
TEST(Digests, AreTheHashOfTheParametersHashes) {
  const Model model = small_model();
  const auto store = make_memory_store();
  save_as_trainer(*store, model, 3);
  Hasher hasher;
  for (std::size_t row = 0; row < model.common.parameters.size(); ++row) {
    const ParameterSpec& spec = model.common.parameters[row];
    if (!spec.trainable || spec.alias_of != -1 || spec.numel() == 0) continue;
    const auto parameter = static_cast<std::int32_t>(row);
    hasher.add(
        hash_of(elements(model, "master", DType::kFloat32, {parameter, 0, spec.numel()})).bytes);
  }
  EXPECT_EQ(digests_of(*store->open(7)).at("master"), hasher.value());
}

TEST(Digests, NoticeOneChangedBitOfOneState) {
  const auto digests = [](bool change) {
    CommonState common;
    common.groups.resize(1);
    common.parameters = {{"a", {5}}, {"b", {3}}};
    std::vector<std::byte> a(20, std::byte{1}), b(12, std::byte{2}), c = b;
    if (change) c[7] ^= std::byte{16};
    const auto store = make_memory_store();
    const auto writer = store->begin(common, 1);
    writer->put(0, {{{"master", DType::kFloat32, {{0, 0, 5}, {1, 0, 3}}, {a, b}},
                     {"ema", DType::kFloat32, {{0, 0, 5}, {1, 0, 3}}, {a, c}}},
                    {}});
    writer->commit();
    return digests_of(*store->open(0));
  };
  EXPECT_EQ(digests(false).at("master"), digests(true).at("master"));
  EXPECT_NE(digests(false).at("ema"), digests(true).at("ema"));
  EXPECT_EQ(digests(false).at("ema"), digests(false).at("master"));
}

// The format allows any tiling, in whatever order of ranks.
TEST(Digests, DoNotDependOnWhoHoldsWhat) {
  CommonState common;
  common.groups.resize(1);
  common.parameters = {{"a", {6}}, {"b", {3}}};
  std::vector<std::byte> a(24), b(12);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::byte>(i * i + 3);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::byte>(i * 5);
  const auto digests = [&](const std::vector<std::vector<Extent>>& held) {
    const auto store = make_memory_store();
    const auto writer = store->begin(common, static_cast<int>(held.size()));
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      StateView view{"master", DType::kFloat32, held[rank], {}};
      for (const Extent& extent : held[rank]) {
        view.pieces.push_back(
            std::span<const std::byte>(extent.parameter == 0 ? a : b)
                .subspan(static_cast<std::size_t>(4 * extent.begin),
                         static_cast<std::size_t>(4 * (extent.end - extent.begin))));
      }
      writer->put(static_cast<int>(rank), {{view}, {}});
    }
    writer->commit();
    std::uint64_t last = 0;
    const Digests result =
        digests_of(*store->open(0), [&](std::uint64_t done, std::uint64_t total) {
          EXPECT_GT(done, last);
          EXPECT_EQ(total, a.size() + b.size());
          last = done;
          return true;
        });
    EXPECT_EQ(last, a.size() + b.size());
    return result;
  };
  const Digests whole = digests({{{0, 0, 6}, {1, 0, 3}}});
  EXPECT_EQ(digests({{{0, 4, 6}}, {{0, 0, 4}, {1, 0, 3}}}), whole);
  EXPECT_EQ(digests({{{0, 0, 1}, {0, 5, 6}}, {{0, 1, 5}, {1, 2, 3}}, {{1, 0, 2}}}), whole);
}

TEST(Digests, ABuilderRefusesPartsThatDoNotFollow) {
  const std::vector<ParameterSpec> parameters = {{"a", {4}}};
  const std::vector<std::byte> bytes(16);
  const auto part = [&](std::size_t elements) { return std::span(bytes).first(4 * elements); };
  DigestBuilder builder(parameters);
  EXPECT_THROW(builder.add("master", {0, 1, 2}, part(1)), ContractError);
  builder.add("master", {0, 0, 2}, part(2));
  EXPECT_THROW(builder.finish(), ContractError);
  EXPECT_THROW(builder.add("master", {0, 0, 2}, part(2)), ContractError);
  builder.add("master", {0, 2, 4}, part(2));
  EXPECT_THROW(builder.add("master", {0, 0, 4}, part(4)), ContractError);
  EXPECT_EQ(builder.finish().size(), 1u);
}

TEST(Digests, StopWhenToldTo) {
  const auto store = make_memory_store();
  save_as_trainer(*store, small_model(), 3);
  const auto reader = store->open(7);
  EXPECT_THROW(digests_of(*reader, [](auto, auto) { return false; }), Cancelled);
}

}  // namespace
}  // namespace zero::checkpoint
