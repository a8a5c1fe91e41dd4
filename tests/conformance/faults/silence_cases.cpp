#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "libzero/base/error.h"
#include "tests/conformance/faults/cases.h"

namespace zero::fault_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

void rank_that_does_not_come_is_named_with_number_and_label(const Backend& backend) {
  std::latch others_failed(2);
  const auto start = Clock::now();
  const auto errors = backend.ranks.run(3, kShort, [&](Collective& comm) {
    comm.barrier("first")->wait();
    if (comm.rank() == 1) {
      others_failed.wait();
    } else {
      const auto text = what_of([&] { reduce_scatter(comm, 10); });
      EXPECT_GE(Clock::now() - start, kShort);
      others_failed.count_down();
      EXPECT_THAT(text, AllOf(HasSubstr("rank 1 did not come"), HasSubstr("#2"),
                              HasSubstr("bucket 7"), HasSubstr("400 ms")));
    }
    comm.barrier("after")->wait();
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("rank 1 did not come"))));
}

void rank_that_falls_silent_in_the_middle_is_named_on_every_rank(const Backend& backend) {
  std::latch others_failed(2);
  const auto errors = backend.ranks.run(3, kShort, [&](Collective& comm) {
    const auto epilogue =
        comm.rank() == 2 ? at_the_first_piece([&] { others_failed.wait(); }) : Epilogue{};
    const auto text = what_of([&] { reduce_scatter(comm, kLarge, epilogue); });
    if (comm.rank() != 2) others_failed.count_down();
    EXPECT_THAT(text, AllOf(StartsWith("CommError"), HasSubstr("rank 2 fell silent"),
                            HasSubstr("#2"), HasSubstr("bucket 7")));
  });
}

void leaving_without_shutdown_is_named_at_once(const Backend& backend) {
  const auto start = Clock::now();
  const auto errors = backend.ranks.run(3, kPatience, [&](Collective& comm) {
    comm.barrier("together")->wait();
    if (comm.rank() == 0) return;
    reduce_scatter(comm, 10);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], HasSubstr("rank 0 left without shutdown()"));
  EXPECT_THAT(errors[2], HasSubstr("rank 0 left without shutdown()"));
  EXPECT_LT(Clock::now() - start, kPatience / 4);
}

void ranks_that_never_join_are_named(const Backend& backend) {
  const auto store = make_memory_store();
  const auto text = what_of([&] { backend.ranks.join(1, 4, store, kShort); });
  EXPECT_THAT(text, StartsWith("CommError"));
  for (const std::string& part : backend.never_joined) EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace

std::vector<Case<Backend>> silence_cases() {
  return {{"RankThatDoesNotComeIsNamedWithNumberAndLabel",
           rank_that_does_not_come_is_named_with_number_and_label},
          {"RankThatFallsSilentInTheMiddleIsNamedOnEveryRank",
           rank_that_falls_silent_in_the_middle_is_named_on_every_rank},
          {"LeavingWithoutShutdownIsNamedAtOnce", leaving_without_shutdown_is_named_at_once},
          {"RanksThatNeverJoinAreNamed", ranks_that_never_join_are_named}};
}

}  // namespace zero::fault_test
