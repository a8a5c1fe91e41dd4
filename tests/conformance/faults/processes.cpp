#include "tests/conformance/faults/processes.h"

#include <gtest/gtest.h>

namespace zero::fault_test {

Processes::Processes(const std::string& program, int size, std::chrono::milliseconds timeout)
    : server_(rendezvous::ServerOptions{}) {
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_unique<RankProcess>(program, rank, size, server_.port(), timeout));
  }
  for (const std::string& answer : answers()) EXPECT_EQ(answer, "joined");
}

void Processes::tell_all(const std::string& command) {
  for (auto& rank : ranks_) rank->tell(command);
}

std::vector<std::string> Processes::answers() {
  std::vector<std::string> lines;
  for (auto& rank : ranks_) lines.push_back(rank->answer());
  return lines;
}

}  // namespace zero::fault_test
