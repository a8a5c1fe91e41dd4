#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "libzero/base/error.h"
#include "libzero/observe/json_lines.h"
#include "tests/temporary_folder.h"

namespace zero::observe {
namespace {

using testing::TemporaryFolder;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(JsonText, IsReadBackAsItWasWhateverTheBytes) {
  std::string every;
  for (int byte = 1; byte < 128; ++byte) every += static_cast<char>(byte);
  every += '\0';
  every += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  const std::int64_t list[] = {1, -2, 3};
  const std::string text = JsonObject()
                               .add(every, every)
                               .add("double", 0.1)
                               .add("list", list)
                               .add("yes", true)
                               .add("large", std::int64_t{-9'223'372'036'854'775'807})
                               .add("nan", std::nan(""))
                               .text();
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json[every], every);
  EXPECT_EQ(json["double"], 0.1);
  EXPECT_EQ(json["list"], nlohmann::json({1, -2, 3}));
  EXPECT_EQ(json["yes"], true);
  EXPECT_EQ(json["large"], -9'223'372'036'854'775'807);
  EXPECT_TRUE(json["nan"].is_null());
  EXPECT_EQ(nlohmann::json::parse(json_string("a\xff\xc0z")), "a\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST(JsonLines, GoOnBehindTheLastWholeLine) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  for (const std::string old : {"", "{\"a\":1}\n", "{\"a\":1}\n{\"half", "{\"half"}) {
    std::ofstream(path, std::ios::trunc) << old;
    JsonLines(path, /*append=*/true).write(JsonObject().add("b", 2));
    EXPECT_EQ(text_of_file(path),
              (old.starts_with("{\"a") ? "{\"a\":1}\n" : "") + std::string("{\"b\":2}\n"));
  }
  JsonLines(path, /*append=*/false).write(JsonObject().add("c", 3));
  EXPECT_EQ(text_of_file(path), "{\"c\":3}\n");
}

TEST(JsonLines, SpeakOfDeviceMemoryOnlyWhereThereIsSome) {
  StepResult result;
  result.host_bytes = 5000;
  JsonObject on_host;
  add_to(on_host, result);
  EXPECT_THAT(on_host.text(), ::testing::EndsWith(R"("host_bytes":5000})"));
  result.device_bytes = 7000;
  JsonObject on_both;
  add_to(on_both, result);
  EXPECT_THAT(on_both.text(), ::testing::EndsWith(R"("host_bytes":5000,"device_bytes":7000})"));
}

TEST(JsonLines, SayWhereTheyCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW(JsonLines(folder / "no/log", false), IoError);
  JsonLines full("/dev/full", false);
  EXPECT_THROW(full.write(JsonObject()), IoError);
}

}  // namespace
}  // namespace zero::observe
