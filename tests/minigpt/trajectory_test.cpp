#include "examples/minigpt/trajectory.h"

#include <gmock/gmock.h>

#include <cstring>
#include <string>

namespace minigpt {
namespace {

using ::testing::IsEmpty;

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST(Trajectory, OfTheSameFlagsHasNotChanged) {
  EXPECT_THAT(changes_of_trajectory(remember_trajectory({}), {}), IsEmpty());
}

TEST(Trajectory, EveryFlagThatChangedIsNamedWithBothValues) {
  Flags flags;
  flags.batch = 32;
  flags.lr = 0.1;
  flags.wire = "bf16";
  flags.dropout = 0.1;
  EXPECT_EQ(changes_of_trajectory(remember_trajectory({}), flags),
            "--batch 32 (was 16), --lr 0.1 (was 0.001), --wire bf16 (was auto), "
            "--dropout 0.1 (was 0)");
}

TEST(Trajectory, FlagsThatDecideNothingMayChange) {
  Flags flags;
  flags.save_every = 7;
  flags.stage = 0;
  flags.log = "log";
  EXPECT_THAT(changes_of_trajectory(remember_trajectory({}), flags), IsEmpty());
}

TEST(Trajectory, WhatAFileHoldsCannotRuleATerminal) {
  for (const std::string& text :
       {std::string("--lr \x1b[2J\n"), std::string("--lr"), std::string(100000, 'x'),
        "--lr " + std::string(1000, '1'), std::string("--unknown 1\n"), std::string(3, '\0')}) {
    EXPECT_THAT(changes_of_trajectory(bytes_of(text), {}), IsEmpty());
  }
}

}  // namespace
}  // namespace minigpt
