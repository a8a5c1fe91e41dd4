#include "backends/shm/board.h"

#include <utility>

#include "backends/shm/futex.h"

namespace zero::shm {
namespace {

void ring(Seat& seat) {
  seat.bell.fetch_add(1);
  futex_wake(seat.bell);
}

/// True if the rank of `seat` sleeps for this. What it waits for was written before whom it waits
/// for; if it is something newer already, it looks itself before it sleeps.
bool waits_for(const Seat& seat, int rank, Progress kind, std::uint64_t value) {
  return seat.waiting_for.load() == static_cast<std::uint32_t>(rank) + 1 &&
         seat.waiting_kind.load() == static_cast<std::uint32_t>(kind) &&
         seat.waiting_value.load() <= value;
}

}  // namespace

Board::Board(std::shared_ptr<Segment> segment, const Geometry& geometry, int rank)
    : segment_(std::move(segment)), geometry_(geometry), rank_(rank) {}

Seat& Board::seat(int rank) const {
  return *reinterpret_cast<Seat*>(segment_->data() + geometry_.region_begin(rank));
}

std::byte* Board::row(int rank, std::int64_t row) const {
  const std::size_t rows_begin = geometry_.region_begin(rank + 1) - geometry_.rows_region_bytes();
  return segment_->data() + rows_begin +
         static_cast<std::size_t>(row % kDepth) * geometry_.row_bytes();
}

std::size_t Board::piece_offset(int from, int to) const {
  return static_cast<std::size_t>(to < from ? to : to - 1) * geometry_.piece_bytes;
}

std::uint64_t Board::progress(int rank, Progress kind) const {
  // Sequentially consistent: see advance().
  return seat(rank).progress[static_cast<std::size_t>(kind)].value.load();
}

void Board::advance(Progress kind, std::uint64_t value) const {
  own_seat().progress[static_cast<std::size_t>(kind)].value.store(value);
  // A rank says that it waits before it looks a last time; this one looks for sleepers after it has
  // said what is new. Sequentially consistent on both sides: one of the two sees the other.
  for (int peer = 0; peer < size(); ++peer) {
    Seat& theirs = seat(peer);
    if (waits_for(theirs, rank_, kind, value)) ring(theirs);
  }
}

void Board::ring_all() const {
  for (int rank = 0; rank < size(); ++rank) ring(seat(rank));
}

}  // namespace zero::shm
