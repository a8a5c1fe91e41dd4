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

TEST(Trajectory, EveryFlagThatDecidesTheNumbersIsRemembered) {
  const auto changed_by = [](auto change) {
    Flags flags;
    change(flags);
    return changes_of_trajectory(remember_trajectory({}), flags);
  };
  using ::testing::StartsWith;
  EXPECT_THAT(changed_by([](Flags& f) { f.batch += 1; }), StartsWith("--batch "));
  EXPECT_THAT(changed_by([](Flags& f) { f.micro_batch += 1; }), StartsWith("--micro-batch "));
  EXPECT_THAT(changed_by([](Flags& f) { f.steps += 1; }), StartsWith("--steps "));
  EXPECT_THAT(changed_by([](Flags& f) { f.threads += 1; }), StartsWith("--threads "));
  EXPECT_THAT(changed_by([](Flags& f) { f.lr += 1; }), StartsWith("--lr "));
  EXPECT_THAT(changed_by([](Flags& f) { f.min_lr += 1; }), StartsWith("--min-lr "));
  EXPECT_THAT(changed_by([](Flags& f) { f.warmup += 1; }), StartsWith("--warmup "));
  EXPECT_THAT(changed_by([](Flags& f) { f.weight_decay += 1; }), StartsWith("--weight-decay "));
  EXPECT_THAT(changed_by([](Flags& f) { f.beta1 /= 2; }), StartsWith("--beta1 "));
  EXPECT_THAT(changed_by([](Flags& f) { f.beta2 /= 2; }), StartsWith("--beta2 "));
  EXPECT_THAT(changed_by([](Flags& f) { f.momentum /= 2; }), StartsWith("--momentum "));
  EXPECT_THAT(changed_by([](Flags& f) { f.clip += 1; }), StartsWith("--clip "));
  EXPECT_THAT(changed_by([](Flags& f) { f.ema = 0.5; }), StartsWith("--ema "));
  EXPECT_THAT(changed_by([](Flags& f) { f.autocast = "bf16"; }), StartsWith("--autocast "));
  EXPECT_THAT(changed_by([](Flags& f) { f.wire = "fp16"; }), StartsWith("--wire "));
  EXPECT_THAT(changed_by([](Flags& f) { f.dropout += 0.5; }), StartsWith("--dropout "));
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
