#include "libzero/optim/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace zero {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Notes what its tasks do. The first one may be made to wait, or to throw.
struct Log {
  std::vector<std::int32_t> ran, dropped;
  std::atomic<bool> go{true};
  std::int32_t throws = -1;

  static void run(void* self, std::int32_t argument) {
    auto& log = *static_cast<Log*>(self);
    log.go.wait(false);
    if (argument == log.throws) throw std::runtime_error("task");
    log.ran.push_back(argument);
  }
  static void drop(void* self, std::int32_t argument) {
    static_cast<Log*>(self)->dropped.push_back(argument);
  }
  Task task(std::int32_t argument) { return {&run, this, argument, &drop}; }
  void release() {
    go = true;
    go.notify_all();
  }
};

TEST(TaskQueue, RunsInTheOrderOfSubmissionBeyondItsRoomAndAroundTheRing) {
  Log log;
  TaskQueue queue(3);
  std::vector<std::int32_t> expected;
  for (std::int32_t round = 0; round < 3; ++round) {
    log.go = false;
    for (std::int32_t i = 0; i < 10; ++i) {
      expected.push_back(10 * round + i);
      queue.submit(log.task(expected.back()));
    }
    EXPECT_FALSE(queue.idle());
    log.release();
    queue.drain();
    EXPECT_TRUE(queue.idle());
  }
  EXPECT_EQ(log.ran, expected);
  EXPECT_THAT(log.dropped, IsEmpty());
}

TEST(TaskQueue, WhatLiesBehindAFailureIsDroppedUntilTheErrorIsTaken) {
  Log log;
  log.throws = 2;
  TaskQueue queue(2);
  log.go = false;
  for (std::int32_t i = 1; i <= 4; ++i) queue.submit(log.task(i));
  log.release();
  EXPECT_THROW(queue.drain(), std::runtime_error);
  EXPECT_THAT(log.ran, ElementsAre(1));
  EXPECT_THAT(log.dropped, ElementsAre(3, 4));
  queue.submit(log.task(5));
  queue.drain();
  EXPECT_THAT(log.ran, ElementsAre(1, 5));
}

TEST(TaskQueue, StopDropsWhatHasNotStartedAndWhatComesAfterIt) {
  Log log;
  TaskQueue queue(2);
  queue.submit(log.task(1));
  queue.drain();
  queue.stop();
  queue.submit(log.task(2));
  EXPECT_THAT(log.ran, ElementsAre(1));
  EXPECT_THAT(log.dropped, ElementsAre(2));
}

}  // namespace
}  // namespace zero
