#pragma once

/// How the ranks of a new communicator come to map the same memory, apart from how they tell each
/// other: one of them makes an offer, all of them (it too) answer it, and all hold the same answers
/// when they finish, so that all come to the same end.

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "backends/shm/geometry.h"
#include "backends/shm/process.h"
#include "backends/shm/segment.h"

namespace zero::shm {

/// Why there is no shared memory, the same on all ranks: rethrow it, or read it and go another way.
struct Refusal {
  std::exception_ptr
      error;  ///< ContractError, IoError or Unavailable, of the first rank that has one.
  std::string text;
};

/// The first refusal among the answers, if there is one; `answers` in rank order.
std::unique_ptr<Refusal> first_refusal(const std::vector<std::string>& answers);

class Joining {
 public:
  /// The longest text that ranks have to pass on.
  static constexpr std::size_t kMostTextBytes = 4096;
  /// The answer of a rank that has no part in this, or no reason of its own against it.
  static constexpr const char* kNothingToSay = "nothing";

  Joining(int rank, int size) : rank_(rank), geometry_(geometry_for(size)) {}

  /// On the first rank only: makes the memory. Never throws: an offer can be that there is none.
  std::string make_offer();
  /// Maps what is offered and takes this rank's part of it from the system.
  std::string answer(const std::string& offer);
  /// With the answers of all ranks, in rank order, none of them a refusal: nobody needs to open the
  /// memory any more. Throws FormatError for an answer that makes no sense.
  void finish(const std::vector<std::string>& answers);

  int rank() const { return rank_; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const Geometry& geometry() const { return geometry_; }
  /// In rank order.
  const std::vector<Process>& processes() const { return processes_; }

 private:
  void accept(const std::string& offer);

  const int rank_;
  const Geometry geometry_;
  std::shared_ptr<Segment> segment_;
  std::vector<Process> processes_;
};

}  // namespace zero::shm
