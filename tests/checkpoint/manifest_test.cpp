#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/names.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Manifest small() {
  Manifest manifest;
  manifest.attempt = "0123456789abcdef";
  manifest.run_id = "run";
  manifest.writer = "a \"test\" \xc3\xbc";
  manifest.step = 7;
  manifest.parameters = 1;
  manifest.files = {{"common.h5", -1, 1000, {}, {{"/a", ElementType::string(3), {2}, 100, 6, {}}}},
                    {"shard-00000-of-00001.h5",
                     0,
                     2000,
                     {},
                     {{"/e", ElementType::of(DType::kInt64), {0, 4}, 0, 0, {}},
                      {"/d", ElementType::of(DType::kFloat32), {5}, 96, 20, {}}}}};
  return manifest;
}

/// The text with another body and the right hash for it.
std::string signed_text(std::string body) {
  const std::string hash = to_text(hash_of(body));
  return body + " \"xxh3_of_above\": \"" + hash + "\"\n}\n";
}

std::string body_of(const Manifest& manifest) {
  const std::string text = to_text(manifest);
  return text.substr(0, text.size() - 55);
}

std::string replaced(const std::string& what, const std::string& with) {
  std::string body = body_of(small());
  const std::size_t at = body.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return signed_text(body.replace(at, what.size(), with));
}

std::string error_of(const std::string& text) {
  try {
    parse_manifest(text);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ManifestText, RoundTrips) {
  EXPECT_EQ(parse_manifest(to_text(small())), small());
  EXPECT_EQ(to_text(parse_manifest(to_text(small()))), to_text(small()));
}

TEST(ManifestText, UnknownMembersAndMinorVersionsAreIgnored) {
  EXPECT_EQ(
      error_of(replaced("\"parameters\": 1,", "\"parameters\": 1,\n \"perhaps\": [\n  1\n ],")),
      "accepted");
  EXPECT_EQ(error_of(replaced("  1,\n  0\n ]", "  1,\n  9\n ]")), "accepted");
}

TEST(ManifestText, AnotherMajorVersionIsRefusedAsSuch) {
  EXPECT_THAT(error_of(replaced("  1,\n  0\n ]", "  2,\n  0\n ]")), HasSubstr("major version 2"));
}

TEST(ManifestText, EveryTruncationIsRefused) {
  const std::string text = to_text(small());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(error_of(text.substr(0, size)), "accepted") << size;
  }
  EXPECT_NE(error_of(text + "\n"), "accepted");
}

TEST(ManifestText, OnlyTheCanonicalSpellingIsRead) {
  const std::string canonical = "is not in canonical form";
  EXPECT_THAT(error_of(replaced("\"step\": 7", "\"step\":  7")), HasSubstr(canonical));
  EXPECT_THAT(error_of(replaced("\"step\": 7", "\"step\": 7,\n \"step\": 7")),
              HasSubstr(canonical));
  EXPECT_THAT(error_of(replaced("\"run\"", "\"\\u0072un\"")), HasSubstr(canonical));
  EXPECT_THAT(error_of(replaced("\"stage\": 0,\n \"step\": 7", "\"step\": 7,\n \"stage\": 0")),
              HasSubstr(canonical));
}

// Each with the right hash: what a hostile writer could make.
TEST(ManifestText, HostileValuesAreRefused) {
  const std::vector<std::pair<std::string, std::string>> lies = {
      {"\"step\": 7", "\"step\": -1"},
      {"\"step\": 7", "\"step\": 1000000000000"},
      {"\"step\": 7", "\"step\": 18446744073709551615"},
      {"\"step\": 7", "\"step\": 7.5"},
      {"\"step\": 7", "\"step\": \"7\""},
      {"\"step\": 7", "\"step\": null"},
      {"\"step\": 7", "\"stop\": 7"},
      {"\"world_size\": 1", "\"world_size\": 0"},
      {"\"world_size\": 1", "\"world_size\": 2"},
      {"\"world_size\": 1", "\"world_size\": 65537"},
      {"\"parameters\": 1", "\"parameters\": 0"},
      {"\"parameters\": 1", "\"parameters\": 99999999999"},
      {"\"groups\": 0", "\"groups\": 65537"},
      {"\"block_bytes\": 8388608", "\"block_bytes\": 8388607"},
      {"\"block_bytes\": 8388608", "\"block_bytes\": 0"},
      {"\"stage\": 0", "\"stage\": 3"},
      {"libzero-manifest", "libzero-manifesto"},
      {"0123456789abcdef", "0123456789ABCDEF"},
      {"\"run\"", "\"../run\""},
      {"common.h5", "../common.h5"},
      {"common.h5", "/etc/passwd"},
      {"common.h5", "MANIFEST.json"},
      {"common.h5", "view.h5"},
      {"common.h5", "shard-00000-of-00001.h5"},
      {"shard-00000-of-00001.h5", "common.h5"},
      {"shard-00000-of-00001.h5", "shard-00001-of-00001.h5"},
      {"shard-00000-of-00001.h5", "shard-0000-of-00001.h5"},
      {"\"rank\": 0", "\"rank\": 1"},
      {"\"rank\": -1", "\"rank\": 0"},
      {"\"size\": 2000", "\"size\": 115"},
      {"\"size\": 2000", "\"size\": -1"},
      {"\"offset\": 96", "\"offset\": 9223372036854775807"},
      {"\"offset\": 96", "\"offset\": 18446744073709551615"},
      {"\"offset\": 96", "\"offset\": -96"},
      {"\"offset\": 0", "\"offset\": 8"},
      {"\"bytes\": 20", "\"bytes\": 24"},
      {"     5\n", "     4611686018427387904\n"},
      {"     5\n", "     18446744073709551615\n"},
      {"     5\n", "     -5\n"},
      {"     0,\n", "     4611686018427387905,\n"},
      {"\"float32\"", "\"float8\""},
      {"\"string3\"", "\"string03\""},
      {"\"string3\"", "\"string1025\""},
      {"\"string3\"", "\"string\""},
      {"\"/d\"", "\"d\""},
      {"\"/d\"", "\"/e\""},
      {"\"/d\"", "\"/d \""},
  };
  for (const auto& [what, with] : lies) {
    const std::string error = error_of(replaced(what, with));
    EXPECT_NE(error, "accepted") << what << " -> " << with;
    EXPECT_THAT(error, Not(HasSubstr("hash")))
        << what << " -> " << with;  // That would hide the lie.
  }
}

TEST(ManifestText, MalformedHashesAreRefused) {
  EXPECT_THAT(error_of(replaced("\"xxh3\": \"0", "\"xxh3\": \"g")),
              HasSubstr("a hash is malformed"));
  EXPECT_EQ(error_of(signed_text(body_of(small()))), "accepted");
}

TEST(ManifestText, OverlappingDatasetsAreRefused) {
  Manifest manifest = small();
  auto& datasets = manifest.files[1].datasets;
  datasets.push_back({"/f", ElementType::of(DType::kUInt8), {1}, 115, 1, {}});
  EXPECT_THAT(error_of(to_text(manifest)), HasSubstr("overlap"));
  datasets.back().offset = 116;
  EXPECT_EQ(error_of(to_text(manifest)), "accepted");
}

TEST(ManifestText, DeepNestingIsRefused) {
  std::string deep(100000, '[');
  deep += std::string(100000, ']');
  EXPECT_THAT(error_of(replaced("\"step\": 7", "\"step\": " + deep)), HasSubstr("nested"));
}

// Arbitrary damage under a right hash: an error or the same meaning, never a crash.
TEST(ManifestText, RandomMutationsNeverCrash) {
  std::mt19937 random(1);
  const std::string body = body_of(small());
  int refused = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    std::string mutated = body;
    for (unsigned n = random() % 4 + 1; n > 0; --n) {
      const std::size_t at = random() % mutated.size();
      switch (random() % 4) {
        case 0:
          mutated[at] = static_cast<char>(random());
          break;
        case 1:
          mutated.erase(at, random() % 9);
          break;
        case 2:
          mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 40));
          break;
        default:
          mutated[at] = "0123456789-[]{}\",:e."[random() % 20];
          break;
      }
    }
    refused += error_of(signed_text(mutated)) != "accepted";
  }
  EXPECT_GT(refused, kCount / 2);
}

TEST(Names, AreMatchedStrictly) {
  EXPECT_EQ(step_name(400), "step_000000000400");
  EXPECT_EQ(parse_step_name("step_000000000400"), 400);
  for (const char* wrong :
       {"step_400", "step_0000000004000", "step_00000000040x", "Step_000000000400",
        "step_-00000000400", ".tmp-step_000000000400", ""}) {
    EXPECT_EQ(parse_step_name(wrong), std::nullopt) << wrong;
  }
  EXPECT_TRUE(is_leftover_name(temporary_name(400, "0123456789abcdef")));
  EXPECT_TRUE(is_leftover_name(doomed_name(400, "0123456789abcdef")));
  for (const char* wrong :
       {".tmp-step_000000000400", ".tmp-step_000000000400-0123456789abcdeg", ".tmp-x",
        "step_000000000400", ".tmp-step_000000000400-0123456789abcdef0"}) {
    EXPECT_FALSE(is_leftover_name(wrong)) << wrong;
  }
  for (const char* right : {"MANIFEST.json", "common.h5", "view.h5", "shard-00000-of-00001.h5"}) {
    EXPECT_TRUE(is_checkpoint_file_name(right)) << right;
  }
  for (const char* wrong : {"", "..", "shard-0-of-1.h5", "shard-00000-of-00001.h5~",
                            "common.h5.bak", "shard-000000-of-00001.h5"}) {
    EXPECT_FALSE(is_checkpoint_file_name(wrong)) << wrong;
  }
  EXPECT_TRUE(is_attempt(random_attempt()));
  EXPECT_NE(random_attempt(), random_attempt());
}

}  // namespace
}  // namespace zero::checkpoint
