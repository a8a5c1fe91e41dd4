#pragma once

/// N ranks as processes, and the store through which they meet.

#include <memory>
#include <string>
#include <vector>

#include "backends/rendezvous/store_server.h"
#include "tests/conformance/faults/rank_process.h"

namespace zero::fault_test {

/// As an argument of reduce_scatter or stall: more elements a rank than any backend has in flight.
inline const std::string kManyElements = " 2097152";
/// A timeout that no test waits for.
inline constexpr std::chrono::milliseconds kLong{20'000};

class Processes {
 public:
  /// Expects that all join.
  Processes(const std::string& program, int size, std::chrono::milliseconds timeout);

  RankProcess& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void tell_all(const std::string& command);
  /// The next line of every rank.
  std::vector<std::string> answers();

 private:
  rendezvous::StoreServer server_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

}  // namespace zero::fault_test
