#include "tests/conformance/ranks.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace zero::testing {
namespace {

void run_rank(std::shared_ptr<Collective> comm, int rank, const RankBody& body) {
  try {
    body(comm);
    if (comm) comm->shutdown();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << " threw: " << error.what();
    if (comm) comm->abort("the test failed on rank " + std::to_string(rank));
  }
}

}  // namespace

void run_ranks(const Setting& setting, const RankBody& body, std::chrono::milliseconds timeout) {
  auto comms = setting.backend.make(setting.world_size, timeout);
  ASSERT_EQ(comms.size(), static_cast<std::size_t>(setting.world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.world_size; ++rank) {
    threads.emplace_back(run_rank, std::move(comms[static_cast<std::size_t>(rank)]), rank,
                         std::cref(body));
  }
  for (std::thread& thread : threads) thread.join();
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

}  // namespace zero::testing
