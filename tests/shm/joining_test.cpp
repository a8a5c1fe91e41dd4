// How ranks come to share memory, and how all of them hear alike that they cannot.

#include "backends/shm/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <sstream>
#include <thread>

#include "backends/shm/shm.h"
#include "libzero/base/error.h"
#include "tests/shm/world.h"

namespace zero::shm_test {
namespace {

using shm::first_refusal;
using shm::Joining;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

/// The offer of a first rank of two, with one of its words replaced.
std::string offer_with(Joining& first, std::size_t word, const std::string& replacement) {
  std::istringstream words(first.make_offer());
  std::string text;
  std::string changed;
  for (std::size_t i = 0; words >> text; ++i) {
    changed += (i == 0 ? "" : " ") + (i == word ? replacement : text);
  }
  return changed;
}

/// What the second rank makes of such an offer.
std::string answer_to(std::size_t word, const std::string& replacement) {
  Joining first(0, 2);
  return Joining(1, 2).answer(offer_with(first, word, replacement));
}

TEST(ShmJoining, AnOfferIsAnsweredAndTheMemoryIsTheSame) {
  Joining first(0, 2);
  Joining second(1, 2);
  const std::string offer = first.make_offer();
  const std::vector<std::string> answers = {first.answer(offer), second.answer(offer)};
  EXPECT_EQ(first_refusal(answers), nullptr) << answers[0] << "; " << answers[1];
  first.finish(answers);
  second.finish(answers);
  EXPECT_NE(first.segment()->data(), second.segment()->data());
  first.segment()->data()[12345] = std::byte{77};
  EXPECT_EQ(second.segment()->data()[12345], std::byte{77});
  EXPECT_EQ(second.processes()[0], shm::this_process());
}

TEST(ShmJoining, MemoryIsTakenFromTheSystemBeforeAnybodyTouchesIt) {
  Joining first(0, 2);
  Joining second(1, 2);
  const std::string offer = first.make_offer();
  first.answer(offer);
  second.answer(offer);
  struct stat status {};
  ASSERT_EQ(fstat(first.segment()->descriptor(), &status), 0);
  EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, first.geometry().total_bytes());
}

TEST(ShmJoining, AnotherHostIsRefusedWithAContractError) {
  const std::string answer = answer_to(1, "another-boot/pid:[1]");
  const auto refusal = first_refusal({"joined 1 1", answer});
  ASSERT_NE(refusal, nullptr) << answer;
  EXPECT_THAT([&] { std::rethrow_exception(refusal->error); },
              ThrowsMessage<ContractError>(
                  AllOf(HasSubstr("rank 1"), HasSubstr("another host"), HasSubstr("gloo"))));
}

TEST(ShmJoining, MemoryThatIsNotTheOneOfferedIsRefused) {
  EXPECT_THAT(answer_to(6, "17"), AllOf(StartsWith("ContractError"), HasSubstr("not the memory")));
}

TEST(ShmJoining, AnotherVersionIsRefused) {
  EXPECT_THAT(answer_to(5, "17"), AllOf(StartsWith("ContractError"), HasSubstr("same one")));
  EXPECT_THAT(answer_to(4, "4096"), AllOf(StartsWith("ContractError"), HasSubstr("same one")));
}

TEST(ShmJoining, ADescriptorThatIsNoSuchMemoryIsRefused) {
  EXPECT_THAT(answer_to(3, "0"), AllOf(StartsWith("ContractError"), HasSubstr("/fd/0")));
  EXPECT_THAT(answer_to(3, "987654"), AllOf(StartsWith("Unavailable"), HasSubstr("/fd/987654")));
}

TEST(ShmJoining, NonsenseIsRefusedAndNeverRead) {
  Joining second(1, 2);
  for (const char* text : {"", "segment", "segment x y z", "joined 1 2", "\xff\xff"}) {
    EXPECT_THAT(second.answer(text), StartsWith("ContractError")) << text;
  }
  for (const char* text : {"", "joined", "joined x y", "nothing"}) {
    Joining first(0, 1);
    first.make_offer();
    EXPECT_THROW(first.finish({text}), FormatError) << text;
  }
}

TEST(ShmJoining, ARefusedOfferIsTheFirstRanksReasonAlone) {
  const std::string refused = "IoError no memory here";
  EXPECT_EQ(Joining(0, 2).answer(refused), refused);
  EXPECT_EQ(Joining(1, 2).answer(refused), Joining::kNothingToSay);
}

/// Makes this process unable to grow files, as `ulimit -f` would.
class NoRoom {
 public:
  NoRoom() {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = 64 << 10;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~NoRoom() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(ShmJoining, WithoutRoomEveryRankSaysHowMuchIsNeededAndNobodyIsKilled) {
  const NoRoom no_room;
  const auto store = make_memory_store();
  std::string errors[3];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        shm::join({rank, 3, kPatience, store});
      } catch (const IoError& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 0: there is not enough memory"),
                               HasSubstr(std::to_string(shm::geometry_for(3).total_bytes())),
                               HasSubstr("gloo")));
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(ShmJoining, ASplitWithoutRoomFailsAlikeOnAllRanksAndTheParentGoesOn) {
  std::vector<std::string> errors(3);
  const auto split = [&](Collective& comm) {
    std::unique_ptr<NoRoom> no_room;
    if (comm.rank() == 0) no_room = std::make_unique<NoRoom>();
    comm.barrier("no room any more")->wait();
    try {
      comm.split(comm.rank() == 2 ? -1 : 0, 0);
    } catch (const IoError& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier("goes on")->wait();
  };
  kRanks.run_in_peace(3, split);
  EXPECT_THAT(errors[0], HasSubstr("there is not enough memory"));
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(ShmJoining, RowsOfEveryWorldFitEpiloguesAndStayModest) {
  for (int size = 2; size <= 64; ++size) {
    const shm::Geometry geometry = shm::geometry_for(size);
    EXPECT_EQ(geometry.piece_bytes % (kEpilogueBlock * sizeof(float)), 0u) << size;
    EXPECT_GT(geometry.piece_bytes, 0u) << size;
    EXPECT_LE(geometry.region_bytes(), 5u << 20) << size;
    EXPECT_EQ(geometry.region_begin(size - 1) % 4096, 0u) << size;
  }
}

}  // namespace
}  // namespace zero::shm_test
