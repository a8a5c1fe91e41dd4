/// Readers give what the files hold, or say which byte of which file is wrong.

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/train/cifar_files.h"
#include "libzero/train/token_file.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::thrown;
using Indices = std::vector<std::int64_t>;

std::string written(const TemporaryFolder& folder, const std::string& name,
                    const std::string& bytes) {
  std::ofstream(folder / name, std::ios::binary) << bytes;
  return folder / name;
}

std::string little_endian(const std::vector<std::uint32_t>& tokens, int width) {
  std::string bytes;
  for (const std::uint32_t token : tokens) {
    for (int i = 0; i < width; ++i) bytes += static_cast<char>((token >> (8 * i)) & 0xff);
  }
  return bytes;
}

TEST(TokenFile, WindowsOverlapByOneTokenInEveryWidth) {
  const TemporaryFolder folder;
  const std::vector<std::uint32_t> tokens = {7, 255, 3, 4, 5, 6, 200, 8};
  for (const int width : {1, 2, 4}) {
    const TokenFile file(written(folder, "t", little_endian(tokens, width)),
                         {.context = 3, .bytes_per_token = width, .vocabulary = 256});
    EXPECT_EQ(file.count(), 2);
    const torch::Tensor expected = torch::tensor({{4, 5, 6, 200}, {7, 255, 3, 4}}, torch::kLong);
    EXPECT_TRUE(torch::equal(file.windows(Indices{1, 0}), expected)) << width;
  }
  EXPECT_EQ(TokenFile(folder / "t", {.context = 7, .bytes_per_token = 4}).count(), 1);
}

TEST(TokenFile, TokensBeyond16BitsAndAHeader) {
  const TemporaryFolder folder;
  const std::string path =
      written(folder, "t", "header" + little_endian({0xfffffffeu, 0x10203u, 1}, 4));
  const TokenFile file(path, {.context = 2, .bytes_per_token = 4, .header_bytes = 6});
  EXPECT_TRUE(
      torch::equal(file.windows(Indices{0}),
                   torch::tensor(std::vector<std::int64_t>{4294967294, 66051, 1}).unsqueeze(0)));
}

TEST(TokenFile, DamageIsNamedByFileAndOffset) {
  const TemporaryFolder folder;
  const auto opened = [&](const std::string& bytes, TokenFileOptions options = {.context = 2}) {
    const std::string path = written(folder, "tokens.bin", bytes);
    return thrown<FormatError>([&] { TokenFile(path, options); });
  };
  EXPECT_THAT(opened("1234567"), HasSubstr("tokens.bin: byte 6: the file ends within a token"));
  EXPECT_THAT(opened("1234"), HasSubstr("tokens.bin: byte 4: the file ends before its first window"
                                        "; it holds 2 tokens, and 3 are needed"));
  EXPECT_THAT(opened(""), HasSubstr("it holds 0 tokens"));
  EXPECT_THAT(opened("123456", {.context = 2, .header_bytes = 9}), HasSubstr("0 tokens"));

  const TokenFile file(written(folder, "tokens.bin", little_endian({1, 2, 3, 4, 9, 1, 2}, 2)),
                       {.context = 2, .vocabulary = 9});
  file.windows(Indices{0});
  EXPECT_THAT(thrown<FormatError>([&] {
                file.windows(Indices{0, 1});
              }),
              HasSubstr("tokens.bin: byte 8: token 9 lies beyond the vocabulary of 9"));
  std::filesystem::resize_file(folder / "tokens.bin", 13);
  EXPECT_THAT(thrown<FormatError>([&] { file.windows(Indices{2}); }),
              HasSubstr("tokens.bin: byte 13: the file ends here now"));
}

TEST(TokenFile, MisuseAndMissingFiles) {
  const TemporaryFolder folder;
  const std::string path = written(folder, "t", "123456");
  EXPECT_THAT(thrown<ContractError>([&] { TokenFile(path, {}); }), HasSubstr("context"));
  EXPECT_THAT(thrown<ContractError>([&] { TokenFile(path, {.context = 1, .bytes_per_token = 3}); }),
              HasSubstr("1, 2 or 4"));
  EXPECT_THAT(thrown<IoError>([&] { TokenFile(folder / "absent", {.context = 1}); }),
              ::testing::AllOf(HasSubstr("absent"), HasSubstr("No such file")));
  EXPECT_THAT(thrown<FormatError>([&] { TokenFile(folder.path(), {.context = 1}); }),
              HasSubstr("not a file"));
  const TokenFile file(path, {.context = 1});
  EXPECT_THAT(thrown<ContractError>([&] { file.windows(Indices{2}); }), HasSubstr("[0, 2): 2"));
  EXPECT_THAT(thrown<ContractError>([&] { file.windows(Indices{-1}); }), HasSubstr("-1"));
  EXPECT_EQ(file.windows(Indices{}).size(0), 0);
}

/// Record `number` of a file: its pixels differ from all others'.
std::string record(int number, const std::string& labels) {
  std::string bytes = labels;
  for (int i = 0; i < 3072; ++i) bytes += static_cast<char>((number * 7 + i) % 251);
  return bytes;
}

torch::Tensor pixels(int number) {
  return ((torch::arange(3072) + number * 7) % 251).to(torch::kByte).view({3, 32, 32});
}

TEST(CifarFiles, RecordsOfSeveralFilesInOrder) {
  const TemporaryFolder folder;
  const CifarFiles files({written(folder, "a", record(0, "\x03") + record(1, "\x09")),
                          written(folder, "b", record(2, {0}))});
  EXPECT_EQ(files.count(), 3);
  const LabelledImages read = files.read(Indices{2, 0, 1});
  EXPECT_TRUE(torch::equal(read.labels, torch::tensor({0, 3, 9}, torch::kLong)));
  EXPECT_TRUE(torch::equal(read.images, torch::stack({pixels(2), pixels(0), pixels(1)})));
}

TEST(CifarFiles, TheFineLabelOfCifar100) {
  const TemporaryFolder folder;
  const CifarFiles files({written(folder, "a", record(0, "\x13\x63"))}, Cifar::k100);
  const LabelledImages read = files.read(Indices{0});
  EXPECT_EQ(read.labels[0].item<std::int64_t>(), 99);
  EXPECT_TRUE(torch::equal(read.images[0], pixels(0)));
}

TEST(CifarFiles, DamageIsNamedByFileAndOffset) {
  const TemporaryFolder folder;
  const std::string good = written(folder, "good.bin", record(0, "\x01"));
  const auto opened = [&](const std::string& bytes) {
    const std::string path = written(folder, "bad.bin", bytes);
    return thrown<FormatError>([&] { CifarFiles({good, path}); });
  };
  EXPECT_THAT(opened(record(0, "\x01") + "half"),
              HasSubstr("bad.bin: byte 3073: the file ends within this record of 3073 bytes"));
  EXPECT_THAT(opened(""), HasSubstr("bad.bin: byte 0: the file is empty"));
  const CifarFiles files({good, written(folder, "bad.bin", record(0, "\x01") + record(1, "\x0a"))});
  files.read(Indices{0, 1});
  EXPECT_THAT(thrown<FormatError>([&] { files.read(Indices{2}); }),
              HasSubstr("bad.bin: byte 3073: label 10 is none of the 10"));
  std::filesystem::resize_file(folder / "bad.bin", 4000);
  EXPECT_THAT(thrown<FormatError>([&] { files.read(Indices{2}); }),
              HasSubstr("bad.bin: byte 4000: the file ends here now"));
  EXPECT_THAT(thrown<ContractError>([&] { files.read(Indices{3}); }), HasSubstr("[0, 3): 3"));
  EXPECT_THAT(thrown<ContractError>([] { CifarFiles({}); }), HasSubstr("at least one file"));
}

}  // namespace
}  // namespace zero
