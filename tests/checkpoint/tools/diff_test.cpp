// Whatever differs is found and named; whatever does not matter is not.

#include "checkpoint/tools/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "model.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// "subject: problem" of each.
std::vector<std::string> texts(const std::vector<Difference>& differences) {
  std::vector<std::string> result;
  for (const Difference& each : differences) result.push_back(each.subject + ": " + each.problem);
  return result;
}

/// One trainable matrix "w" of 7 x 5, its master in memory, and whatever a test adds.
struct Small {
  CommonState common;
  std::vector<StateView> states;
  std::vector<float> w = std::vector<float>(35, 1.0f);

  Small() {
    common.step = 9;
    common.parameters = {{"w", {7, 5}}};
    common.groups = {{{"lr", 0.1}, {"beta1", 0.9}}};
    common.scaler = {65536, 3, 1, 0};
    common.counters = {{"samples_seen", 640}};
    common.blobs = {{"schedule", Blob(33)}};
    states = {{"master", DType::kFloat32, {{0, 0, 35}}, {}}};
  }
  std::unique_ptr<Reader> reader() {
    states[0].pieces = {std::as_bytes(std::span(w))};
    for (std::size_t i = 1; i < states[0].extents.size(); ++i) {
      states[0].pieces.push_back(std::as_bytes(std::span(w)));
    }
    const auto store = make_memory_store();
    const auto writer = store->begin(common, 1);
    writer->put(0, {states, {}});
    writer->commit();
    return store->open(9);
  }
};

std::vector<std::string> difference_after(const std::function<void(Small&)>& change) {
  Small a, b;
  change(b);
  return texts(diff(*a.reader(), *b.reader()));
}

/// Of one element, which is `a` in one checkpoint and `b` in the other.
template <class Element>
Difference element_difference(DType dtype, Element a, Element b) {
  const auto reader = [&](Element element) {
    Small small;
    std::vector<Element> values(6, Element{});
    values[4] = element;
    small.common.parameters.push_back({"x", {2, 1, 3}, dtype, -1, false, -1});
    small.states.push_back({"value", dtype, {{1, 0, 6}}, {std::as_bytes(std::span(values))}});
    return small.reader();
  };
  const auto found = diff(*reader(a), *reader(b));
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? Difference{} : found[0];
}

TEST(Diff, EqualStatesAreEqualAcrossWorldSizesAndStores) {
  const Model model = make_model({1, 2, 3, 5, 6, 7, 57, 97, 1000}, {256, 64, 1});
  Model other = make_model({1, 2, 3, 5, 6, 7, 57, 97, 1000}, {1024, 64, 64});
  other.common.run_id = "another";
  other.common.stage = 1;
  const auto reference = make_memory_store();
  save_as_trainer(*reference, model, 1);
  for (int world_size = 1; world_size <= 5; ++world_size) {
    Hdf5StoreOptions options;
    options.block_bytes = 64;
    const auto store =
        make_hdf5_store(std::make_shared<testing::MemoryFileSystem>(), "/store", options);
    save_as_trainer(*store, other, world_size);
    EXPECT_THAT(texts(diff(*reference->open(7), *store->open(7))), IsEmpty());
    EXPECT_THAT(texts(diff(*store->open(7), *reference->open(7))), IsEmpty());
  }
}

TEST(Diff, CountsElementsAndNamesTheLargestDifference) {
  Small a, b;
  b.w[3] = 1.25f;
  b.w[7] = 1.5f;
  b.w[8] = 0.5f;
  const auto found = diff(*a.reader(), *b.reader());
  EXPECT_THAT(texts(found),
              ElementsAre("parameter w, master: 3 of 35 elements differ, largest difference 0.5 at "
                          "[1, 2]: 1 and 1.5"));
  EXPECT_EQ(found[0].elements, 3);
  EXPECT_EQ(found[0].largest_difference, 0.5);
}

TEST(Diff, ZerosOfTwoSignsAndPayloadsOfNaNDifferInBits) {
  const Difference zero = element_difference(DType::kFloat32, 0.0f, -0.0f);
  EXPECT_EQ(zero.problem,
            "1 of 6 elements differ in bits only, the first at [1, 0, 1]: 0 (0x00000000) and -0 "
            "(0x80000000)");
  EXPECT_EQ(zero.elements, 1);
  EXPECT_EQ(zero.largest_difference, 0);
  const Difference nan = element_difference<std::uint32_t>(DType::kFloat32, 0x7fc00000, 0x7fc00001);
  EXPECT_THAT(nan.problem, HasSubstr("(0x7fc00000) and nan (0x7fc00001)"));
  EXPECT_EQ(nan.largest_difference, 0);
}

TEST(Diff, NaNAndInfinityAgainstNumbersAreInfinitelyFar) {
  EXPECT_EQ(element_difference(DType::kFloat32, 1.0f, std::nanf("")).largest_difference, kInfinity);
  EXPECT_EQ(element_difference(DType::kFloat32, std::nanf(""), 1.0f).largest_difference, kInfinity);
  EXPECT_EQ(element_difference(DType::kFloat32, kInfinity, std::nanf("")).largest_difference,
            kInfinity);
  EXPECT_EQ(element_difference(DType::kFloat32, kInfinity, -kInfinity).largest_difference,
            kInfinity);
  EXPECT_THAT(element_difference(DType::kFloat32, -kInfinity, 2.0f).problem,
              HasSubstr("largest difference inf at [1, 0, 1]: -inf and 2"));
}

TEST(Diff, UnderstandsEveryDtype) {
  EXPECT_THAT(element_difference<std::uint16_t>(DType::kBFloat16, 0x3f80, 0x4000).problem,
              HasSubstr("largest difference 1 at [1, 0, 1]: 1 and 2"));
  EXPECT_THAT(element_difference<std::uint16_t>(DType::kFloat16, 0x3c00, 0xb800).problem,
              HasSubstr("largest difference 1.5 at [1, 0, 1]: 1 and -0.5"));
  EXPECT_THAT(element_difference<std::uint16_t>(DType::kBFloat16, 0x0000, 0x8000).problem,
              HasSubstr("0 (0x0000) and -0 (0x8000)"));
  EXPECT_THAT(element_difference<std::uint8_t>(DType::kUInt8, 3, 255).problem,
              HasSubstr("largest difference 252 at [1, 0, 1]: 3 and 255"));
  const auto far = element_difference<std::int64_t>(DType::kInt64, INT64_MIN, INT64_MAX);
  EXPECT_EQ(far.largest_difference, std::ldexp(1.0, 64));
  EXPECT_THAT(far.problem, HasSubstr("-9223372036854775808 and 9223372036854775807"));
}

// Whatever lies in one block, part or shard.
TEST(Diff, FindsADifferenceInEveryPlace) {
  constexpr std::int64_t kElements = 600'001;  // Several parts.
  CommonState common;
  common.parameters = {{"w", {kElements}, DType::kFloat32, -1, false, -1}};
  std::vector<float> values(kElements, 2.0f);
  const auto reader = [&] {
    const auto store = make_memory_store();
    const auto writer = store->begin(common, 1);
    writer->put(
        0, {{{"value", DType::kFloat32, {{0, 0, kElements}}, {std::as_bytes(std::span(values))}}},
            {}});
    writer->commit();
    return store->open(0);
  };
  const auto equal = reader();
  for (const std::size_t at : {0u, 1u, 262'143u, 262'144u, 262'145u, 524'288u, 600'000u}) {
    values[at] = 3.0f;
    const auto found = diff(*equal, *reader());
    ASSERT_EQ(found.size(), 1u) << at;
    EXPECT_EQ(found[0].problem, "1 of 600001 elements differ, largest difference 1 at [" +
                                    std::to_string(at) + "]: 2 and 3");
    values[at] = 2.0f;
  }
}

TEST(Diff, NamesParametersOfOneSideOnly) {
  Small a, b;
  b.common.parameters[0].name = "v";
  EXPECT_THAT(texts(diff(*a.reader(), *b.reader())),
              ElementsAre("parameter w: only in the first", "parameter v: only in the second"));
}

TEST(Diff, ComparesParametersByNameNotByRow) {
  const auto reader = [](bool swapped) {
    Small small;
    ParameterSpec other{"x", {3}, DType::kUInt8, -1, false, -1};
    auto& rows = small.common.parameters;
    rows.insert(swapped ? rows.begin() : rows.end(), other);
    const std::vector<std::byte> bytes(3, std::byte{8});
    small.states[0].extents[0].parameter = swapped ? 1 : 0;
    small.states.push_back({"value", DType::kUInt8, {{swapped ? 0 : 1, 0, 3}}, {bytes}});
    return small.reader();
  };
  EXPECT_THAT(texts(diff(*reader(false), *reader(true))), IsEmpty());
}

TEST(Diff, NamesWhatDiffersOfAParameter) {
  EXPECT_THAT(difference_after([](Small& s) {
                s.common.parameters[0].shape = {5, 7};
              }),
              ElementsAre("parameter w: shape [7, 5] and [5, 7]"));
  EXPECT_THAT(difference_after([](Small& s) { s.common.parameters[0].dtype = DType::kBFloat16; }),
              ElementsAre("parameter w: dtype float32 and bfloat16"));
  EXPECT_THAT(difference_after([](Small& s) { s.common.parameters[0].trainable = false; }),
              ElementsAre("parameter w: trainable in the first, frozen in the second"));
  EXPECT_THAT(difference_after([](Small& s) {
                s.common.groups.push_back(s.common.groups[0]);
                s.common.parameters[0].group = 1;
              }),
              ElementsAre("parameter w: group 0 and 1", "groups: there are 1 and 2"));
}

TEST(Diff, ComparesTiedParametersOnce) {
  const auto reader = [](float value, bool tied) {
    Small small;
    small.w[4] = value;
    small.common.parameters.push_back({"head", {7, 5}, DType::kFloat32, 0, true, tied ? 0 : -1});
    if (!tied) small.states[0].extents.push_back({1, 0, 35});
    return small.reader();
  };
  EXPECT_THAT(texts(diff(*reader(1, true), *reader(3, true))),
              ElementsAre(HasSubstr("parameter w, master: 1 of 35")));
  EXPECT_THAT(texts(diff(*reader(3, true), *reader(3, false))),
              ElementsAre("parameter head: an alias of w in the first, no alias in the second"));
  EXPECT_THAT(texts(diff(*reader(1, false), *reader(3, true))),
              ElementsAre(HasSubstr("parameter w, master: 1 of 35"),
                          "parameter head: no alias in the first, an alias of w in the second",
                          HasSubstr("parameter head, master: 1 of 35")));
}

TEST(Diff, NamesStatesOfOneSideOnlyAndOtherDtypes) {
  EXPECT_THAT(difference_after([](Small& s) { s.states[0].name = "ema"; }),
              ElementsAre("parameter w, ema: only in the second",
                          "parameter w, master: only in the first"));
  Small a, b;
  const std::vector<std::byte> halves(70);
  a.states.push_back({"ema", DType::kFloat16, {{0, 0, 35}}, {halves}});
  b.states.push_back({"ema", DType::kBFloat16, {{0, 0, 35}}, {halves}});
  EXPECT_THAT(texts(diff(*a.reader(), *b.reader())),
              ElementsAre("parameter w, ema: dtype float16 and bfloat16"));
}

TEST(Diff, NamesWhatDiffersOfTheCommonState) {
  using S = Small;
  EXPECT_THAT(difference_after([](S& s) { s.common.groups[0]["lr"] = 0.2; }),
              ElementsAre("group 0, lr: 0.1 and 0.2"));
  EXPECT_THAT(difference_after([](S& s) { s.common.groups[0]["eps"] = 0.2; }),
              ElementsAre("group 0, eps: only in the second"));
  EXPECT_THAT(difference_after([](S& s) { s.common.groups[0].erase("lr"); }),
              ElementsAre("group 0, lr: only in the first"));
  EXPECT_THAT(difference_after([](S& s) {
                s.common.scaler = {32768, 4, 2, 5};
              }),
              ElementsAre("scaler: scale 65536 and 32768", "scaler: growth tracker 3 and 4",
                          "scaler: hysteresis left 1 and 2", "scaler: consecutive skips 0 and 5"));
  EXPECT_THAT(difference_after([](S& s) { s.common.counters["samples_seen"] = 704; }),
              ElementsAre("counter samples_seen: 640 and 704"));
  EXPECT_THAT(difference_after([](S& s) { s.common.counters["epoch"] = 1; }),
              ElementsAre("counter epoch: only in the second"));
  EXPECT_THAT(difference_after([](S& s) { s.common.blobs["schedule"][5] = std::byte{1}; }),
              ElementsAre("blob schedule: its 33 bytes differ, the first at 5"));
  EXPECT_THAT(difference_after([](S& s) { s.common.blobs["schedule"].resize(40); }),
              ElementsAre("blob schedule: it has 33 and 40 bytes"));
  EXPECT_THAT(difference_after([](S& s) { s.common.blobs.clear(); }),
              ElementsAre("blob schedule: only in the first"));
}

TEST(Diff, ComparesStepsHoweverTheyAreKept) {
  const auto reader = [](std::int64_t step, std::vector<std::int64_t> applied, int counter) {
    const auto store = make_memory_store();
    Small small;
    small.common.step = step;
    small.common.applied_steps = std::move(applied);
    if (counter >= 0) small.common.counters["applied_steps"] = counter;
    small.states[0].pieces = {std::as_bytes(std::span(small.w))};
    const auto writer = store->begin(small.common, 1);
    writer->put(0, {small.states, {}});
    writer->commit();
    return store->open(step);
  };
  EXPECT_THAT(texts(diff(*reader(9, {}, -1), *reader(10, {}, -1))), ElementsAre("step: 9 and 10"));
  EXPECT_THAT(texts(diff(*reader(9, {8}, -1), *reader(9, {9}, -1))),
              ElementsAre("parameter w, applied steps: 8 and 9"));
  EXPECT_THAT(texts(diff(*reader(9, {8}, 8), *reader(9, {}, 8))), IsEmpty());
  EXPECT_THAT(texts(diff(*reader(9, {8}, -1), *reader(9, {}, -1))),
              ElementsAre("parameter w, applied steps: 8 and unknown"));
}

TEST(Diff, TellsItsProgressAndStops) {
  const auto store = make_memory_store();
  save_as_trainer(*store, make_model({57, 97, 5}, {256, 64, 1}), 2);
  const auto reader = store->open(7);
  const auto unlike = Small().reader();
  for (const bool with_itself : {true, false}) {
    const Reader& second = with_itself ? *reader : *unlike;
    std::uint64_t last = 0, all = 1;
    int calls = 0;
    const auto count = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_GE(done, last);
      last = done;
      all = total;
      ++calls;
      return true;
    };
    diff(*reader, second, count);
    EXPECT_EQ(last, all);
    for (int at = 1; at <= calls; ++at) {
      int left = at;
      const auto stop = [&](auto, auto) { return --left > 0; };
      EXPECT_THROW(diff(*reader, second, stop), Cancelled);
    }
  }
}

TEST(Diff, DamageIsAnErrorNotADifference) {
  const Model model = make_model({57, 97, 5}, {256, 64, 1});
  const auto files = std::make_shared<testing::MemoryFileSystem>();
  const auto store = make_hdf5_store(files, "/store");
  save_as_trainer(*store, model, 2);
  const auto whole = make_memory_store();
  save_as_trainer(*whole, model, 2);
  const std::string path = "/store/" + step_name(7) + "/" + shard_name(1, 2);
  auto bytes = files->content(path);
  const auto master = elements(model, "master", DType::kFloat32, {1, 96, 97});
  const auto at = std::search(bytes.begin(), bytes.end(), master.begin(), master.end());
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  files->set_content(path, bytes);
  EXPECT_THROW(diff(*whole->open(7), *store->open(7)), FormatError);
  EXPECT_THROW(diff(*store->open(7), *whole->open(7)), FormatError);
}

}  // namespace
}  // namespace zero::checkpoint
