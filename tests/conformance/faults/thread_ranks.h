#pragma once

/// N ranks as N threads of this process, over any backend.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero::fault_test {

inline constexpr std::chrono::milliseconds kPatience{20'000};

/// Makes the communicator of one rank, as every rank of `size` does at the same time.
using JoinRank = std::function<std::shared_ptr<Collective>(
    int rank, int size, std::shared_ptr<KeyValueStore>, std::chrono::milliseconds timeout)>;

class ThreadRanks {
 public:
  explicit ThreadRanks(JoinRank join) : join_(std::move(join)) {}

  /// One rank, on the calling thread.
  std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                   std::chrono::milliseconds timeout) const {
    return join_(rank, size, std::move(store), timeout);
  }

  /// In rank order. Throws if a rank cannot join.
  std::vector<std::shared_ptr<Collective>> make_world(int size,
                                                      std::chrono::milliseconds timeout) const;

  /// Runs `body` for every rank at once and returns what each threw, in rank order: "" or
  /// "CommError: <text>". A body's communicator is destroyed on its own thread, without shutdown()
  /// unless the body called it.
  std::vector<std::string> run(int size, std::chrono::milliseconds timeout,
                               const std::function<void(Collective&)>& body) const;

  /// As above; shuts down at the end and expects that nothing throws.
  void run_in_peace(int size, const std::function<void(Collective&)>& body) const;

 private:
  JoinRank join_;
};

/// What `call` throws: "", "ContractError: <text>", "CommError: <text>" or
/// "unexpected error: <text>".
std::string what_of(const std::function<void()>& call);

}  // namespace zero::fault_test
