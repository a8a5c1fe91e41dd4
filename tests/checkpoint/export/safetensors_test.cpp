#include "checkpoint/tools/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/safetensors_header.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::string kPath = "/model.safetensors";

std::string with_length(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string with_length(const std::string& header, const std::string& data) {
  return with_length(header, data, header.size());
}

/// Two tensors: "a", 2 x 3 of two bytes, and "b" behind it, 2 of one byte.
const std::string kHeader = R"({"__metadata__":{"format":"pt"},)"
                            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[12,14]},)"
                            R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})";
const std::string kData = "abcdefghijklmn";

class Safetensors : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    files_.set_content(path, {bytes.begin(), bytes.end()});
  }
  /// What SafetensorsFile says to the bytes: "accepted" or the error.
  std::string error_of(const std::string& bytes) {
    put(kPath, bytes);
    try {
      SafetensorsFile(files_, kPath);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string error_of_header(const std::string& header, const std::string& data = kData) {
    return error_of(with_length(header, data));
  }
  std::string replaced(const std::string& what, const std::string& with) {
    std::string header = kHeader;
    const std::size_t at = header.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return header.replace(at, what.size(), with);
  }
  std::string index_error_of(const std::string& index) {
    put("/model.safetensors.index.json", index);
    try {
      SafetensorsWeights(files_, "/model.safetensors.index.json");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  }
  /// A file of one-byte tensors.
  void put_part(const std::string& path, const std::vector<std::string>& names,
                const StringMap& metadata = {}) {
    std::vector<SafetensorsEntry> entries;
    for (const std::string& name : names) {
      entries.push_back({name, "U8", {1}, entries.size(), entries.size() + 1});
    }
    put(path,
        with_length(safetensors_header_text(entries, metadata), std::string(names.size(), 'x')));
  }

  testing::MemoryFileSystem files_;
};

TEST_F(Safetensors, AreReadWithEveryByte) {
  put(kPath, with_length(kHeader + "   ", kData));
  const SafetensorsFile file(files_, kPath);
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(file.entries().size(), 2u);
  const SafetensorsEntry& a = *file.find("a");
  EXPECT_EQ(&a, &file.entries()[0]);
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  std::string bytes(12, '\0');
  file.read(a, 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "abcdefghijkl");
  bytes.resize(1);
  file.read(*file.find("b"), 1, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "n");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
}

TEST_F(Safetensors, ReadsStayInsideTheirTensor) {
  put(kPath, with_length(kHeader, kData));
  const SafetensorsFile file(files_, kPath);
  std::vector<std::byte> bytes(3);
  EXPECT_THROW(file.read(*file.find("b"), 0, bytes), ContractError);
  bytes.resize(1);
  EXPECT_THROW(file.read(*file.find("b"), 2, bytes), ContractError);
  EXPECT_THROW(file.read(*file.find("a"), ~std::uint64_t{0}, bytes), ContractError);
  bytes.clear();
  EXPECT_NO_THROW(file.read(*file.find("b"), 2, bytes));
}

TEST_F(Safetensors, ScalarsEmptyTensorsAndEmptyFilesAreFine) {
  EXPECT_EQ(error_of_header("{}", ""), "accepted");
  EXPECT_EQ(error_of_header(R"({"__metadata__":{}})", ""), "accepted");
  EXPECT_EQ(error_of_header(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "abcd"),
            "accepted");
  EXPECT_EQ(error_of_header(R"({"e":{"dtype":"F32","shape":[0,9223372036854775807],)"
                            R"("data_offsets":[0,0]}})",
                            ""),
            "accepted");
  EXPECT_EQ(error_of_header(R"({"x":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", "abc"),
            "accepted");
}

TEST_F(Safetensors, EveryTruncationAndEveryTrailingByteIsRefused) {
  const std::string whole = with_length(kHeader, kData);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("its tensors need 14 bytes, it has 15"));
}

TEST_F(Safetensors, LengthsOfHeadersAreNotBelieved) {
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0},
        ~std::uint64_t{0} - 7, std::uint64_t{100'000'001}, kHeader.size() + kData.size() + 1,
        std::uint64_t{kHeader.size() - 1}, std::uint64_t{kHeader.size() + 1}}) {
    EXPECT_NE(error_of(with_length(kHeader, kData, length)), "accepted") << length;
  }
}

TEST_F(Safetensors, HostileHeadersAreRefused) {
  const std::vector<std::pair<std::string, std::string>> lies = {
      {R"([0,12])", R"([0,13])"},
      {R"([0,12])", R"([1,12])"},
      {R"([0,12])", R"([12,0])"},
      {R"([0,12])", R"([0,11])"},
      {R"([0,12])", R"([0])"},
      {R"([0,12])", R"([])"},
      {R"([0,12])", R"([0,12,12])"},
      {R"([0,12])", R"([0,12.0])"},
      {R"([0,12])", R"([-0,12])"},
      {R"([0,12])", R"([0,18446744073709551628])"},
      {R"([0,12])", R"([18446744073709551604,12])"},
      {R"([0,12])", R"([[0,12]])"},
      {R"([0,12])", R"({"0":12})"},
      {R"([0,12])", R"("0,12")"},
      {R"([0,12])", "12"},
      {R"([12,14])", R"([0,2])"},
      {R"([12,14])", R"([13,14])"},
      {R"([12,14])", R"([12,15])"},
      {R"([12,14])", R"([11,13])"},
      {R"([2,3])", R"([2,4])"},
      {R"([2,3])", R"([-2,-3])"},
      {R"([2,3])", R"([4294967296,4294967296])"},
      {R"([2,3])", R"([9223372036854775808])"},
      {R"([2,3])", R"([4611686018427387904,4])"},
      {R"([2,3])", R"([2,3,null])"},
      {R"([2,3])", R"([true])"},
      {R"("BF16")", R"("F32")"},
      {R"("BF16")", R"("bf16")"},
      {R"("BF16")", R"("")"},
      {R"("BF16")", "16"},
      {R"("BF16")", "null"},
      {R"("BF16")", R"(["BF16"])"},
      {R"("dtype":"BF16")", R"("dtype":"BF16","dtype":"BF16")"},
      {R"("dtype":"BF16")", R"("Dtype":"BF16")"},
      {R"("dtype":"BF16",)", ""},
      {R"("dtype":"BF16")", R"("dtype":"BF16","strides":[3,1])"},
      {R"("shape":[2,3],)", ""},
      {R"("a":)", R"("b":)"},
      {R"("a":)", R"("\u0062":)"},
      {R"("a":)", R"("__metadata__":)"},
      {R"("a":)", "\"\xff\":"},
      {R"("a":)", "\"\xed\xa0\x80\":"},
      {R"("a":)", "\"\xc0\xaf\":"},
      {R"({"__metadata__")", R"( {"__metadata__")"},
      {R"({"__metadata__")", R"([{"__metadata__")"},
      {R"({"__metadata__")", "\xef\xbb\xbf{\"__metadata__\""},
      {R"({"format":"pt"})", R"({"format":1})"},
      {R"({"format":"pt"})", R"({"format":["pt"]})"},
      {R"({"format":"pt"})", R"({"format":{"pt":"x"}})"},
      {R"({"format":"pt"})", R"({"format":"pt","format":"pt"})"},
      {R"({"format":"pt"})", R"(["format"])"},
      {R"({"format":"pt"})", "null"},
      {R"([0,12]}})", R"([0,12]}}})"},
      {R"([0,12]}})", R"([0,12]}}{})"},
      {R"([0,12]}})", "[0,12]}}\n"},
      {R"([0,12]}})", std::string("[0,12]}}\0", 9)},
      {R"([0,12]}})", R"([0,12]},})"},
      {R"([0,12]}})", R"([0,12]}/**/})"},
  };
  for (const auto& [what, with] : lies) {
    EXPECT_NE(error_of_header(replaced(what, with)), "accepted") << what << " -> " << with;
  }
  EXPECT_EQ(error_of_header(kHeader), "accepted");
}

// Each of the right sizes, so that only the places are wrong.
TEST_F(Safetensors, HolesAndOverlapsAreRefused) {
  const std::string problem = "bytes belong to no tensor or to two";
  EXPECT_THAT(error_of_header(replaced("[12,14]", "[13,15]"), kData + "o"), HasSubstr(problem));
  EXPECT_THAT(error_of_header(replaced("[12,14]", "[11,13]"), kData.substr(1)), HasSubstr(problem));
  EXPECT_THAT(error_of_header(replaced("[12,14]", "[0,2]"), kData.substr(2)), HasSubstr(problem));
  const std::string shifted = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})";
  EXPECT_THAT(error_of_header(shifted, "abc"), HasSubstr(problem));
  EXPECT_THAT(error_of_header(replaced("[2,3]", "[3,2]")), HasSubstr("accepted"));
}

TEST_F(Safetensors, DeepNestingIsRefusedWithoutDeepRecursion) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 200000; ++i) deep += open;
    EXPECT_NE(error_of_header(replaced("\"BF16\"", deep)), "accepted");
    EXPECT_NE(error_of_header(replaced("[0,12]", deep)), "accepted");
    EXPECT_NE(index_error_of("{\"metadata\":" + deep), "accepted");
  }
}

TEST_F(Safetensors, ATensorMayNotHaveMoreDimensionsThanAnyTensorHas) {
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_THAT(
      error_of_header(R"({"x":{"dtype":"U8","shape":)" + ones + R"(],"data_offsets":[0,1]}})", "x"),
      HasSubstr("too many numbers"));
}

TEST_F(Safetensors, MessagesNameTheFileAndCutForeignNames) {
  const std::string name(10000, 'n');
  const std::string error = error_of_header(replaced("\"a\":", "\"" + name + "\":"), "");
  EXPECT_THAT(error, HasSubstr(kPath));
  EXPECT_LT(error.size(), 500u);
  EXPECT_EQ(shown(std::string(79, 'x') + "\xc3\xa9\xc3\xa9"), std::string(79, 'x') + "...");
}

// Arbitrary damage: an error, or a file whose tensors fill the data exactly; never a crash.
TEST_F(Safetensors, RandomMutationsAreRefusedOrMakeSense) {
  std::mt19937 random(1);
  const std::string whole = with_length(kHeader, kData);
  int refused = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    std::string mutated = whole;
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
          mutated[at] = "0123456789-[]{}\",:e. "[random() % 21];
          break;
      }
      if (mutated.empty()) mutated = "x";
    }
    if (error_of(mutated) != "accepted") {
      ++refused;
      continue;
    }
    const SafetensorsFile file(files_, kPath);
    std::uint64_t held = 0;
    for (const SafetensorsEntry& entry : file.entries()) {
      std::vector<std::byte> bytes(entry.end - entry.begin);
      file.read(entry, 0, bytes);
      held += bytes.size();
    }
    EXPECT_LT(held, mutated.size());
  }
  EXPECT_GT(refused, kCount / 2);
  EXPECT_LT(refused, kCount);
}

TEST_F(Safetensors, MutatedIndicesNeverCrash) {
  put_part("/a.safetensors", {"x", "y"});
  put_part("/b.safetensors", {"z"});
  const std::string index = safetensors_index_text(
      {{"x", "a.safetensors"}, {"y", "a.safetensors"}, {"z", "b.safetensors"}}, 3);
  ASSERT_EQ(index_error_of(index), "accepted");
  std::mt19937 random(2);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = index;
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      mutated[random() % mutated.size()] = static_cast<char>(random());
    }
    try {
      refused += index_error_of(mutated) != "accepted";
    } catch (const FileError& error) {  // A part of another name.
      EXPECT_EQ(error.code(), ENOENT);
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Safetensors, AnIndexJoinsParts) {
  put_part("/a.safetensors", {"x", "y", "unlisted"});
  put_part("/b.safetensors", {"z"});
  put("/model.safetensors.index.json",
      safetensors_index_text(
          {{"x", "a.safetensors"}, {"y", "a.safetensors"}, {"z", "b.safetensors"}}, 3));
  const SafetensorsWeights weights(files_, "/model.safetensors.index.json");
  EXPECT_THAT(weights.names(), ElementsAre("x", "y", "z"));
  EXPECT_EQ(weights.find("y").entry->begin, 1u);
  EXPECT_EQ(weights.find("x").file, weights.find("y").file);
  EXPECT_NE(weights.find("x").file, weights.find("z").file);
  EXPECT_EQ(weights.find("unlisted").file, nullptr);
  EXPECT_EQ(weights.find("nowhere").entry, nullptr);
  put_part("/one.safetensors", {"x"});
  EXPECT_THAT(SafetensorsWeights(files_, "/one.safetensors").names(), ElementsAre("x"));
}

TEST_F(Safetensors, HostileIndicesAreRefused) {
  put_part("/a.safetensors", {"x"});
  files_.make_directory("/sub");
  put_part("/sub/a.safetensors", {"x"});
  const auto of = [](const std::string& file) { return R"({"weight_map":{"x":")" + file + "\"}}"; };
  EXPECT_EQ(index_error_of(of("a.safetensors")), "accepted");
  EXPECT_EQ(index_error_of(R"({"metadata":{"total_size":1.5e3,"x":[null,{"y":true}]},)"
                           R"("weight_map":{"x":"a.safetensors"},"other":-1})"),
            "accepted");
  for (const std::string file : {"sub/a.safetensors", "/a.safetensors", "./a.safetensors",
                                 "../a.safetensors", "sub\\\\a.safetensors", "", ".safetensors",
                                 "a.safetensors\\u0000", "a.bin", "a.safetensors\\n"}) {
    EXPECT_NE(index_error_of(of(file)), "accepted") << file;
  }
  for (const std::string text :
       {"", "{}", "[]", "null", R"({"weight_map":null})", R"({"weight_map":"a.safetensors"})",
        R"({"weight_map":["a.safetensors"]})", R"({"weight_map":{"x":1}})",
        R"({"weight_map":{"x":{"y":"a.safetensors"}}})",
        R"({"weight_map":{"x":["a.safetensors"]}})",
        R"({"weight_map":{"x":"a.safetensors","x":"a.safetensors"}})",
        R"({"weight_map":{"x":"a.safetensors"},"weight_map":{}})",
        R"({"weight_map":{"x":"a.safetensors"}}{})",
        R"({"weight_map":{"nowhere":"a.safetensors"}})",
        R"({"metadata":{"weight_map":{"x":"a.safetensors"}}})"}) {
    EXPECT_NE(index_error_of(text), "accepted") << text;
  }
  EXPECT_THROW(index_error_of(of("missing.safetensors")), FileError);
}

TEST_F(Safetensors, AliasesAreReadAndMustHaveOwners) {
  const std::string alias = "libzero.alias.head";
  put_part(kPath, {"x", "y"}, {{alias, "x"}, {"format", "pt"}});
  EXPECT_THAT(SafetensorsWeights(files_, kPath).aliases(), ElementsAre(Pair("head", "x")));
  put_part(kPath, {"x"}, {{alias, "nowhere"}});
  EXPECT_THROW(SafetensorsWeights(files_, kPath), FormatError);
  put_part(kPath, {"x", "head"}, {{alias, "x"}});
  EXPECT_THROW(SafetensorsWeights(files_, kPath), FormatError);
  put_part("/a.safetensors", {"x"}, {{alias, "x"}});
  put_part("/b.safetensors", {"y"}, {{alias, "y"}});
  EXPECT_THAT(index_error_of(R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})"),
              HasSubstr("disagree about an alias"));
}

TEST_F(Safetensors, WrittenHeadersAreReadAgainAndEndAtAMultipleOfEight) {
  for (std::size_t size = 1; size < 20; ++size) {
    const std::string name = std::string(size, 'n') + "\"\\\n\xc3\xa9";
    const std::string text = safetensors_header_text({{name, "U8", {3}, 0, 3}}, {{"k", "v\""}});
    EXPECT_EQ(text.size() % 8, 0u);
    const SafetensorsHeader header = parse_safetensors_header(text, 3, "x");
    EXPECT_EQ(header.entries.at(0).name, name);
    EXPECT_THAT(header.metadata, ElementsAre(Pair("k", "v\"")));
  }
}

}  // namespace
}  // namespace zero::checkpoint
