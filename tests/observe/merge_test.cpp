#include "libzero/observe/trace_merge.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "libzero/base/error.h"
#include "tests/observe/made_spans.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

namespace zero::observe {
namespace {

using ::testing::ElementsAre;
using testing::feed_step;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::two_buckets;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// On a clock named `clock` that shows `ahead` more than the true time.
std::string make(const TemporaryFolder& folder, int rank, const std::string& clock,
                 Nanoseconds ahead, Nanoseconds late = 0, int world_size = 2) {
  Timeline timeline({.skip = 0, .steps = 3, .room = 1000});
  timeline.begin(two_buckets(rank, world_size));
  for (int i = 0; i < 3; ++i) feed_step(timeline, 1'000'000 + 10'000 * i + ahead, late);
  const std::string path = timeline_path(folder.path(), rank);
  timeline.write(path);
  const std::string text = text_of_file(path);
  const std::size_t begin = text.find(R"("clock":")") + 9;
  put(path, std::string(text).replace(begin, text.find('"', begin) - begin, clock));
  return path;
}

nlohmann::json merged(const TemporaryFolder& folder) {
  return nlohmann::json::parse(text_of_file(folder / "all.json"));
}

std::vector<double> times(const nlohmann::json& trace, int rank, const std::string& name) {
  std::vector<double> result;
  for (const auto& event : trace["traceEvents"]) {
    if (event["pid"] == rank && event["name"] == name) result.push_back(event["ts"]);
  }
  return result;
}

TEST(Merge, PutsEveryRankIntoAProcessOfItsOwn) {
  const TemporaryFolder folder;
  const auto files = {make(folder, 1, "here", 0), make(folder, 0, "here", 0)};
  const MergeResult result = merge_timelines(files, folder / "all.json");
  ASSERT_EQ(result.ranks.size(), 2u);
  EXPECT_EQ(result.ranks[0].rank, 0);
  EXPECT_EQ(result.ranks[1].events, 33);
  EXPECT_EQ(result.ranks[1].clock.collectives, 0) << "one clock";
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_THAT(times(merged(folder), 0, "vote"), ElementsAre(5, 15, 25));
  EXPECT_THAT(times(merged(folder), 1, "vote"), ElementsAre(5, 15, 25));
}

TEST(Merge, AlignsClocksOfDifferentMachinesWithinTheErrorThatItStates) {
  constexpr Nanoseconds kAhead = 7'000'000'000'000;
  for (const Nanoseconds late : {0, 300, 450}) {
    const TemporaryFolder folder;
    make(folder, 0, "here", 0);
    make(folder, 1, "there", kAhead, late);
    const MergeResult result = merge_timelines(timelines_in(folder.path()), folder / "all.json");
    const ClockOffset& clock = result.ranks[1].clock;
    EXPECT_EQ(clock.collectives, 12);
    EXPECT_LE(std::abs(clock.offset - kAhead), clock.error) << late;
    EXPECT_LE(clock.error, 501);  // the shortest collective takes 500 ns
    EXPECT_NEAR(times(merged(folder), 1, "step")[0], 4.1, 0.501);
  }
}

TEST(Merge, DoesNotTakeClocksForOneWhenTheCollectivesSayOtherwise) {
  const TemporaryFolder folder;  // a container's clock may be shifted
  const auto files = {make(folder, 0, "here", 0), make(folder, 1, "here", 50'000)};
  const MergeResult result = merge_timelines(files, folder / "all.json");
  EXPECT_NEAR(static_cast<double>(result.ranks[1].clock.offset), 50'000, 501);
}

TEST(Merge, SaysWhichRanksAreMissing) {
  const TemporaryFolder folder;
  const auto result = merge_timelines({make(folder, 2, "here", 0, 0, 4)}, folder / "all.json");
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("1 of 4")));
}

TEST(Merge, RefusesFilesOfDifferentRuns) {
  const TemporaryFolder folder;
  const std::string a = make(folder, 0, "here", 0), b = make(folder, 1, "there", 0);
  const std::string out = folder / "all.json", text = text_of_file(b);
  const auto refuse = [&](const std::string& changed, const std::string& words) {
    put(b, changed);
    const std::string message = testing::thrown<FormatError>([&] { merge_timelines({a, b}, out); });
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  refuse(replaced(text, R"("world_size":2)", R"("world_size":3)"), "numbers of ranks");
  refuse(replaced(text, "reduce bucket 1", "reduce bucket 7"), "not of one run");
  // Two milliseconds between the first two votes that the other rank does not have.
  refuse(replaced(text, R"("name":"vote","cat":"vote","ph":"X","ts":5.000)",
                  R"("name":"vote","cat":"vote","ph":"X","ts":-2005.000)"),
         "contradict");
  std::string other = text;
  for (std::size_t at; (at = other.find(R"(,"sequence")")) != std::string::npos;)
    other.replace(at, 2, R"(,"S)");
  refuse(other, "no collective in common");
  put(b, text);
  EXPECT_THROW(merge_timelines({a, a}, out), ContractError);
}

TEST(Merge, RefusesEveryCutAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string a = make(folder, 0, "here", 0);
  const std::string text = text_of_file(a);
  for (std::size_t size = 0; size<text.size(); size += size + 3> text.size() ? 1 : 3) {
    put(a, text.substr(0, size));
    EXPECT_THROW(merge_timelines({a}, folder / "all.json"), FormatError) << size;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Merge, RefusesWhatIsNoTimelineNamingTheLine) {
  const TemporaryFolder folder;
  const std::string a = make(folder, 0, "here", 0), text = text_of_file(a);
  const std::string ts = R"("ts":0.000)";
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {ts, R"("ts":"0")"},
           {ts, R"("ts":1e300)"},
           {ts, R"("ts":null)"},
           {R"("dur":1.000)", R"("dur":-1.000)"},
           {R"("ph":"X")", R"("ph":"B")"},
           {R"("tid":0,"args":{"step":1})", R"("tid":0,"args":[1])"},
           {R"("tid":0,"args":{"step":1})", R"("tid":0,"args":{"step":-1})"},
           {R"("tid":0,"args":{"step":1})", R"("tid":77,"args":{"step":1})"},
           {R"("args":{"step":1})", R"("args":{"step":1,"x":[[[[[1]]]]]})"},
           {R"("step":1})", R"("step":1})" + std::string(1 << 17, ' ')},
           {R"("step":1})", R"("step":18446744073709551615})"},
           {"\n]}\n", "\n{}\n"}}) {
    put(a, replaced(text, from, to));
    const std::string message =
        testing::thrown<FormatError>([&] { merge_timelines({a}, folder / "all.json"); });
    EXPECT_THAT(message, HasSubstr("line ")) << to.substr(0, 99);
    EXPECT_THAT(message, HasSubstr(a));
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("version":1)", R"("version":2)"},
           {R"("format":"libzero-trace")", R"("format":"libzero-trace-merged")"},
           {R"("rank":0)", R"("rank":2)"},
           {R"("origin_ns":)", R"("origin_ns":9223372036854775)"},
           {R"("otherData":{)", R"("otherData":{{)"}}) {
    put(a, replaced(text, from, to));
    EXPECT_THROW(merge_timelines({a}, folder / "all.json"), FormatError) << to;
  }
}

TEST(Merge, OverwritesNothingAndNamesWhatIsNotThere) {
  const TemporaryFolder folder;
  const std::string a = make(folder, 0, "here", 0);
  put(folder / "all.json", "mine");
  EXPECT_THROW(merge_timelines({a}, folder / "all.json"), ContractError);
  EXPECT_EQ(text_of_file(folder / "all.json"), "mine");
  EXPECT_THROW(merge_timelines({folder / "none"}, folder / "x.json"), IoError);
  EXPECT_THROW(merge_timelines({a}, folder / "no/x.json"), IoError);
  EXPECT_THROW(merge_timelines({}, folder / "x.json"), ContractError);
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THROW(timelines_in(folder / "empty"), IoError);
}

TEST(Merge, LeavesNothingWhenItsProgressSaysStop) {
  const TemporaryFolder folder;
  const std::string a = make(folder, 0, "here", 0);
  int calls = 0;
  const auto stop = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    if (++calls == 2) throw std::runtime_error("stop");
  };
  EXPECT_THROW(merge_timelines({a}, folder / "all.json", stop), std::runtime_error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace zero::observe
