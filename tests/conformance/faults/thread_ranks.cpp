#include "tests/conformance/faults/thread_ranks.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "libzero/base/error.h"

namespace zero::fault_test {

std::vector<std::shared_ptr<Collective>> ThreadRanks::make_world(
    int size, std::chrono::milliseconds timeout) const {
  const auto store = make_memory_store();
  std::vector<std::shared_ptr<Collective>> ranks(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ranks[static_cast<std::size_t>(rank)] = join_(rank, size, store, timeout);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " cannot join: " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& rank : ranks) {
    if (rank == nullptr) throw std::runtime_error("a rank could not join");
  }
  return ranks;
}

std::vector<std::string> ThreadRanks::run(int size, std::chrono::milliseconds timeout,
                                          const std::function<void(Collective&)>& body) const {
  const auto store = make_memory_store();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] =
          what_of([&] { body(*join_(rank, size, store, timeout)); });
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void ThreadRanks::run_in_peace(int size, const std::function<void(Collective&)>& body) const {
  const auto errors = run(size, kPatience, [&](Collective& comm) {
    body(comm);
    comm.shutdown();
  });
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)], "") << "rank " << rank << " of " << size;
  }
}

std::string what_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const ContractError& error) {
    return std::string("ContractError: ") + error.what();
  } catch (const CommError& error) {
    return std::string("CommError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("unexpected error: ") + error.what();
  }
}

}  // namespace zero::fault_test
