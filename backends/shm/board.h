#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/shm/geometry.h"
#include "backends/shm/segment.h"

namespace zero::shm {

/// One rank's view of the shared memory: finds things in it, rings bells, keeps the reason of
/// death. Any thread.
class Board {
 public:
  /// `segment` has geometry.total_bytes().
  Board(std::shared_ptr<Segment> segment, const Geometry& geometry, int rank);

  int rank() const { return rank_; }
  int size() const { return geometry_.size; }
  const Geometry& geometry() const { return geometry_; }

  Front& front() const { return *reinterpret_cast<Front*>(segment_->data()); }
  Seat& seat(int rank) const;
  Seat& own_seat() const { return seat(rank_); }
  /// Row `row` (any number: rows are used in turns) of `rank`.
  std::byte* row(int rank, std::int64_t row) const;
  /// Which piece of `from`'s rows is for `to`: a byte offset into the row.
  std::size_t piece_offset(int from, int to) const;

  std::uint64_t progress(int rank, Progress kind) const;
  /// Wakes the ranks that wait for this one.
  void advance(Progress kind, std::uint64_t value) const;
  /// Wakes every rank, whatever it waits for.
  void ring_all() const;

 private:
  const std::shared_ptr<Segment> segment_;
  const Geometry geometry_;
  const int rank_;
};

}  // namespace zero::shm
