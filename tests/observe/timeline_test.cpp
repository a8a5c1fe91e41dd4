#include "libzero/observe/timeline.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "libzero/base/error.h"
#include "tests/observe/made_spans.h"
#include "tests/temporary_folder.h"

namespace zero::observe {
namespace {

using ::testing::ElementsAre;
using testing::feed_step;
using testing::TemporaryFolder;
using testing::two_buckets;

nlohmann::json read(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::vector<std::int64_t> steps_of(const Timeline& timeline) {
  std::vector<std::int64_t> steps;
  for (const TimelineSpan& entry : timeline.spans(Lane::kTraining)) {
    if (entry.span.activity == Activity::kStep) steps.push_back(entry.step);
  }
  return steps;
}

TEST(Timeline, RecordsTheStepsThatWereAskedForAndNoOther) {
  Timeline timeline({.skip = 2, .steps = 3, .room = 100});
  timeline.begin(two_buckets(0, 1));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(timeline.is_complete(), i >= 5) << i;
    feed_step(timeline, 10'000 * i);
  }
  EXPECT_THAT(steps_of(timeline), ElementsAre(3, 4, 5));
  EXPECT_EQ(timeline.dropped(), 0);
}

TEST(Timeline, CountsWhatItHasNoRoomForAndKeepsTheFirst) {
  Timeline timeline({.skip = 0, .steps = 3, .room = 8});
  timeline.begin(two_buckets(0, 1));
  for (int i = 0; i < 3; ++i) feed_step(timeline, 10'000 * i);
  EXPECT_EQ(timeline.spans(Lane::kTraining).size(), 8u);
  EXPECT_EQ(timeline.spans(Lane::kTraining).front().span.activity, Activity::kForward);
  EXPECT_EQ(timeline.dropped(), 24 - 8 + 9 - 8);
}

TEST(Timeline, NumbersTheCollectivesOfEachLaneAndStep) {
  Timeline timeline({.skip = 0, .steps = 2, .room = 100});
  timeline.begin(two_buckets(0, 1));
  feed_step(timeline, 0);
  feed_step(timeline, 10'000);
  std::vector<std::int64_t> sequences;
  for (const TimelineSpan& entry : timeline.spans(Lane::kCommunication))
    sequences.push_back(entry.sequence);
  EXPECT_THAT(sequences, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(TimelineFile, IsAChromeTraceWithNameBytesAndDtypeOfEachBucket) {
  const TemporaryFolder folder;
  Timeline timeline({.skip = 0, .steps = 1, .room = 100});
  timeline.begin(two_buckets(3, 4));
  feed_step(timeline, 5'000'000'123);
  const std::string path = timeline_path(folder.path(), 3);
  EXPECT_EQ(path, folder / "trace-rank-0003.json");
  timeline.write(path);
  const nlohmann::json trace = read(path);
  EXPECT_EQ(trace["otherData"]["rank"], 3);
  EXPECT_EQ(trace["otherData"]["origin_ns"], 5'000'000'123);
  const nlohmann::json expected = {{"name", "reduce bucket 1"},
                                   {"cat", "reduce"},
                                   {"ph", "X"},
                                   {"ts", 4.0},
                                   {"dur", 1.0},
                                   {"pid", 3},
                                   {"tid", 1},
                                   {"args",
                                    {{"step", 1},
                                     {"bucket", 1},
                                     {"name", "bucket 1 (\"c\" .. c)"},
                                     {"dtype", "bfloat16"},
                                     {"bytes", 400},
                                     {"sequence", 1}}}};
  int found = 0;
  for (const auto& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 3);
    if (event["name"] == "reduce bucket 1") {
      EXPECT_EQ(event, expected);
      ++found;
    } else if (event["name"] == "gather bucket 0") {
      EXPECT_EQ(event["args"]["dtype"], "float32") << "parameters travel in their own dtype";
    }
  }
  EXPECT_EQ(found, 1);
}

TEST(TimelineFile, ReplacesAnOlderOneAndLeavesNothingBesides) {
  const TemporaryFolder folder;
  Timeline timeline({.skip = 0, .steps = 1, .room = 100});
  timeline.begin(two_buckets(0, 1));
  std::ofstream(folder / "t.json") << "old";
  timeline.write(folder / "t.json");
  EXPECT_EQ(read(folder / "t.json")["traceEvents"].size(), 4u) << "names alone";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(timeline.write(folder / "no/such/folder.json"), IoError);
}

TEST(Timeline, RefusesNegativeNumbers) {
  EXPECT_THROW(Timeline({.skip = -1}), ContractError);
  EXPECT_THROW(Timeline({.steps = -1}), ContractError);
}

}  // namespace
}  // namespace zero::observe
