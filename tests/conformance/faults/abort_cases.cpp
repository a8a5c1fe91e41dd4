#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "libzero/base/error.h"
#include "tests/conformance/faults/cases.h"

namespace zero::fault_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

void abort_reaches_every_rank_wherever_it_is(const Backend& backend) {
  const auto start = Clock::now();
  std::promise<void> middle;
  const auto errors = backend.ranks.run(3, kPatience, [&](Collective& comm) {
    if (comm.rank() == 2) {  // never comes to the call in which the others wait
      middle.get_future().wait();
      comm.abort("the operator said so");
      comm.abort("a later reason");
      comm.barrier("too late")->wait();
    }
    std::thread signal;
    if (comm.rank() == 0) signal = std::thread([&] { middle.set_value(); });
    const auto text = what_of([&] { reduce_scatter(comm, 10); });
    if (signal.joinable()) signal.join();
    EXPECT_THAT(text, HasSubstr("rank 2 aborted: the operator said so"));
    comm.barrier("dead")->wait();
  });
  EXPECT_THAT(errors,
              Each(AllOf(StartsWith("CommError"), HasSubstr("rank 2 aborted: the operator"))));
  EXPECT_LT(Clock::now() - start, kPatience / 4);
}

void abort_from_another_thread_ends_a_transfer_in_flight(const Backend& backend) {
  const auto errors = backend.ranks.run(2, kPatience, [&](Collective& comm) {
    const auto abort = [&] { std::thread([&] { comm.abort("enough"); }).join(); };
    reduce_scatter(comm, kLarge, comm.rank() == 0 ? at_the_first_piece(abort) : Epilogue{});
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("rank 0 aborted: enough"))));
}

void epilogue_that_throws_ends_the_call_everywhere(const Backend& backend) {
  const auto errors = backend.ranks.run(2, kPatience, [&](Collective& comm) {
    const auto complain = [] { throw std::runtime_error("disk full"); };
    reduce_scatter(comm, kLarge, comm.rank() == 0 ? at_the_first_piece(complain) : Epilogue{});
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 0 gave up: disk full")));
}

}  // namespace

std::vector<Case<Backend>> abort_cases() {
  return {
      {"AbortReachesEveryRankWhereverItIs", abort_reaches_every_rank_wherever_it_is},
      {"AbortFromAnotherThreadEndsATransferInFlight",
       abort_from_another_thread_ends_a_transfer_in_flight},
      {"EpilogueThatThrowsEndsTheCallEverywhere", epilogue_that_throws_ends_the_call_everywhere}};
}

}  // namespace zero::fault_test
