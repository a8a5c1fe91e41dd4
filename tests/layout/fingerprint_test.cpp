#include "libzero/layout/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "libzero/layout/layout.h"

namespace zero {
namespace {

const std::vector<ParameterSpec> kModel = {
    {.name = "embedding", .shape = {5, 3}},
    {.name = "norm", .shape = {3}, .dtype = DType::kBFloat16, .group = 1},
    {.name = "frozen", .shape = {2}, .trainable = false},
    {.name = "head", .shape = {5, 3}, .alias_of = 0}};
const LayoutOptions kOptions = {
    .bucket_bytes = 4096, .first_bucket_bytes = 1024, .shard_alignment = 64};

TEST(Fingerprint, IsTheSameForTheSameModelAndPinnedForEver) {
  EXPECT_EQ(Layout(kModel, kOptions).fingerprint(), Layout(kModel, kOptions).fingerprint());
  // Calculated apart, from the serialisation that fingerprint.h describes.
  EXPECT_EQ(Layout(kModel, kOptions).fingerprint(), 0x6c599f98f926634bu);
}

TEST(Fingerprint, ChangesWithEveryFieldOfAParameterAndEveryOption) {
  std::set<std::uint64_t> seen = {Layout(kModel, kOptions).fingerprint()};
  const auto expect_new = [&](const char* what, auto change) {
    auto parameters = kModel;
    auto options = kOptions;
    change(parameters, options);
    EXPECT_TRUE(seen.insert(Layout(parameters, options).fingerprint()).second) << what;
  };
  expect_new("name", [](auto& p, auto&) { p[0].name = "embeddinh"; });
  expect_new("names' border", [](auto& p, auto&) { std::swap(p[0].name, p[3].name); });
  expect_new("shape", [](auto& p, auto&) { p[1].shape = {4}; });
  expect_new("rank of a shape", [](auto& p, auto&) { p[1].shape = {3, 1}; });
  expect_new("order of a shape", [](auto& p, auto&) { p[0].shape = p[3].shape = {3, 5}; });
  expect_new("dtype", [](auto& p, auto&) { p[1].dtype = DType::kFloat16; });
  expect_new("dtype of a frozen one", [](auto& p, auto&) { p[2].dtype = DType::kInt64; });
  expect_new("group", [](auto& p, auto&) { p[1].group = 2; });
  expect_new("group of a frozen one", [](auto& p, auto&) { p[2].group = 1; });
  expect_new("trainable", [](auto& p, auto&) { p[2].trainable = true; });
  expect_new("alias", [](auto& p, auto&) { p[3].alias_of = -1; });
  expect_new("fewer", [](auto& p, auto&) { p.pop_back(); });
  expect_new("order", [](auto& p, auto&) { std::swap(p[1], p[2]); });
  expect_new("bucket_bytes", [](auto&, auto& o) { o.bucket_bytes = 4097; });
  expect_new("first_bucket_bytes", [](auto&, auto& o) { o.first_bucket_bytes = 1025; });
  expect_new("shard_alignment", [](auto&, auto& o) { o.shard_alignment = 65; });
}

TEST(Fingerprint, ChangesWithEveryFieldOfBucketsAndSlots) {
  const Layout layout(kModel, kOptions);
  const std::vector<Bucket> buckets(layout.buckets().begin(), layout.buckets().end());
  std::vector<Slot> slots;
  for (std::int32_t i = 0; i < 4; ++i) slots.push_back(layout.slot(i));
  std::set<std::uint64_t> seen = {layout.fingerprint()};
  const auto expect_new = [&](const char* what, auto change) {
    auto b = buckets;
    auto s = slots;
    change(b, s);
    EXPECT_TRUE(seen.insert(layout_detail::fingerprint(kModel, kOptions, b, s)).second) << what;
  };
  expect_new("bucket dtype", [](auto& b, auto&) { b[0].dtype = DType::kFloat16; });
  expect_new("bucket numel", [](auto& b, auto&) { b[0].numel += 1; });
  expect_new("bucket member", [](auto& b, auto&) { b[0].parameters[0] = 2; });
  expect_new("bucket size", [](auto& b, auto&) { b[0].parameters.push_back(2); });
  expect_new("bucket count", [](auto& b, auto&) { b.pop_back(); });
  expect_new("slot bucket", [](auto&, auto& s) { s[0].bucket = 0; });
  expect_new("slot offset", [](auto&, auto& s) { s[0].offset = 64; });
}

}  // namespace
}  // namespace zero
