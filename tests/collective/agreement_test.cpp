/// Ranks that agree, or all throw the same.

#include "libzero/collective/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/base/error.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/collective/messages.h"
#include "libzero/collective/recorder.h"
#include "tests/optim/ranks.h"

namespace zero::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// What every rank of three throws, which must be the same E.
template <class E>
std::string common_error(const std::function<void(Collective&)>& function) {
  std::vector<std::string> texts(3);
  on_ranks(3, [&](const std::shared_ptr<Collective>& comm) {
    try {
      function(*comm);
    } catch (const E& error) {
      texts[static_cast<std::size_t>(comm->rank())] = error.what();
    }
    comm->barrier("the communicator lives")->wait();
    comm->shutdown();
  });
  EXPECT_THAT(texts, Each(texts[0]));
  return texts[0];
}

using List = std::vector<std::string>;

std::string disagreement(const std::vector<List>& lists) {
  return common_error<ContractError>([&](Collective& comm) {
    require_agreement(comm, lists[static_cast<std::size_t>(comm.rank())]);
  });
}

TEST(Agreement, IsSilentAboutEqualLists) {
  EXPECT_EQ(disagreement({{}, {}, {}}), "");
  EXPECT_EQ(disagreement({{"a", "b\nc"}, {"a", "b\nc"}, {"a", "b\nc"}}), "");
}

TEST(Agreement, NamesTheFirstFactThatDiffersAndWhoHoldsWhat) {
  EXPECT_THAT(disagreement({{"a", "b"}, {"a", "c"}, {"d", "b"}}),
              HasSubstr("rank 2 has 'd' where rank 0 has 'a'"));
  EXPECT_THAT(disagreement({{"a", "b"}, {"a", "c"}, {"a", "d"}}),
              HasSubstr("rank 1 has 'c' where rank 0 has 'b'"));
  EXPECT_THAT(disagreement({{"ab", "c"}, {"a", "bc"}, {"ab", "c"}}), HasSubstr("rank 1 has 'a'"));
}

TEST(Agreement, OfAListThatIsTooShortHasNothingThere) {
  EXPECT_THAT(disagreement({{"a", "b"}, {"a", "b"}, {"a"}}),
              HasSubstr("rank 2 has 'nothing' where rank 0 has 'b'"));
  EXPECT_THAT(disagreement({{}, {"a"}, {}}),
              HasSubstr("rank 1 has 'a' where rank 0 has 'nothing'"));
}

TEST(Agreement, OfOneTextNamesBothRanks) {
  const auto error = [](const List& texts) {
    return common_error<ContractError>([&](Collective& comm) {
      require_same("the path", texts[static_cast<std::size_t>(comm.rank())], comm);
    });
  };
  EXPECT_EQ(error({"x", "x", "x"}), "");
  EXPECT_EQ(error({"x", "y", "x"}),
            "the path must be the same on every rank: rank 0 has 'x', rank 1 has 'y'");
  EXPECT_EQ(error({"x", "x", ""}),
            "the path must be the same on every rank: rank 0 has 'x', rank 2 has ''");
}

TEST(AllOrNone, ThrowsOnEveryRankWhatTheFirstOneThrewInItsKind) {
  const auto failing_on = [](int culprit, const std::function<void()>& fail) {
    return [=](Collective& comm) {
      all_or_none(comm, "a part", [&] {
        if (culprit < 0 || comm.rank() == culprit) fail();
      });
    };
  };
  EXPECT_EQ(common_error<IoError>(failing_on(2, [] { throw IoError("no disk"); })),
            "rank 2: no disk");
  EXPECT_EQ(common_error<FormatError>(failing_on(0, [] { throw FormatError("bad"); })),
            "rank 0: bad");
  EXPECT_EQ(common_error<ContractError>(failing_on(-1, [] { throw ContractError("all"); })), "all");
  EXPECT_EQ(common_error<Unavailable>(failing_on(1, [] { throw Unavailable("none"); })),
            "rank 1: none");
  EXPECT_EQ(common_error<Error>(failing_on(1, [] { throw std::runtime_error("foreign"); })),
            "rank 1: foreign");
}

TEST(AllOrNone, OfSeveralFailuresTheLowestRanksIsToldInItsKind) {
  const auto error = common_error<IoError>([](Collective& comm) {
    all_or_none(comm, "a part", [&] {
      if (comm.rank() == 1) throw IoError("of rank 1");
      if (comm.rank() == 2) throw FormatError("of rank 2");
    });
  });
  EXPECT_EQ(error, "rank 1: of rank 1");
}

TEST(AllOrNone, FirstProblemIsTheLowestRanksOnEveryRank) {
  on_ranks(3, [](const std::shared_ptr<Collective>& comm) {
    EXPECT_EQ(first_problem("", *comm, "nothing"), "");
    const std::string mine = comm->rank() == 0 ? "" : "of rank " + std::to_string(comm->rank());
    EXPECT_EQ(first_problem(mine, *comm, "something"), "rank 1: of rank 1");
    comm->shutdown();
  });
}

/// Whoever throws may leave at once, while the last message to a slower rank is under way: a
/// barrier comes between. Where nobody throws, nobody pays for it.
TEST(Messages, NobodyLeavesBeforeAllKnow) {
  const auto barriers_of = [](const std::function<void(Collective&)>& function) {
    std::vector<std::int64_t> barriers(3);
    on_ranks(3, [&](const std::shared_ptr<Collective>& comm) {
      const Recorded recorded = record_calls(comm);
      try {
        function(*recorded.collective);
      } catch (const Error&) {
        EXPECT_THAT(recorded.log->history().back(), HasSubstr("barrier"));
      }
      barriers[static_cast<std::size_t>(comm->rank())] =
          recorded.log->of(Operation::kBarrier).calls;
      comm->shutdown();
    });
    EXPECT_THAT(barriers, Each(barriers[0]));
    return barriers[0];
  };
  for (const bool differ : {false, true}) {
    const auto mine = [=](Collective& comm) {
      return differ && comm.rank() == 1 ? std::string("other") : std::string("same");
    };
    const std::int64_t expected = differ ? 1 : 0;
    EXPECT_EQ(barriers_of([&](Collective& comm) { require_same("text", mine(comm), comm); }),
              expected);
    EXPECT_EQ(barriers_of([&](Collective& comm) { require_agreement(comm, {mine(comm)}); }),
              expected);
    EXPECT_EQ(barriers_of([&](Collective& comm) {
                all_or_none(comm, "part", [&] {
                  if (mine(comm) == "other") throw IoError("no disk");
                });
              }),
              expected);
    EXPECT_EQ(barriers_of([&](Collective& comm) {
                first_problem(mine(comm) == "other" ? "problem" : "", comm, "problems");
              }),
              expected);
  }
}

TEST(Messages, OfAnyLengthArriveWhole) {
  on_ranks(3, [](const std::shared_ptr<Collective>& comm) {
    const auto text_of = [](int rank) {  // more than one round takes, then none, then a word
      return rank == 0 ? std::string(40u << 20, 'x') + "end" : std::string(rank == 2 ? "word" : "");
    };
    const auto all = gather_messages(text_of(comm->rank()), Receivers::kEveryRank, *comm, "texts");
    ASSERT_EQ(all.size(), 3u);
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_TRUE(all[static_cast<std::size_t>(rank)] == text_of(rank)) << rank;
    EXPECT_EQ(broadcast_message(comm->rank() == 0 ? "heard" : "", *comm, "text"), "heard");
    comm->shutdown();
  });
}

TEST(Messages, WhatOneRankAloneKnowsOfIsACommErrorOnAll) {
  const auto errors = errors_on_ranks(2, [](const std::shared_ptr<Collective>& comm) {
    together(*comm, "reading", [&] {
      if (comm->rank() == 1) MessageReader("short").number();
      comm->barrier("after")->wait();
    });
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("reading failed on rank 1"));
}

}  // namespace
}  // namespace zero::testing
