#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/shm/board.h"
#include "backends/shm/fate.h"
#include "backends/shm/waiter.h"
#include "libzero/base/function_ref.h"

namespace zero::shm {

/// Where each rank's part of a whole lies; the whole is cut in rank order.
struct Slices {
  std::int64_t element_bytes = 1;
  std::int64_t whole = 0;  ///< Elements of all ranks.
  std::int64_t each = 0;   ///< Of one rank, while there are as many left.

  std::int64_t begin(int rank) const { return std::min(whole, rank * each); }
  std::int64_t count(int rank) const { return begin(rank + 1) - begin(rank); }
  std::int64_t longest() const { return count(0); }
  std::size_t offset(int rank) const {  ///< Bytes.
    return static_cast<std::size_t>(begin(rank) * element_bytes);
  }
};

Slices equal_slices(int size, std::int64_t each, std::int64_t element_bytes);
/// Cuts `count` elements into slices that begin on cache lines.
Slices near_equal_slices(int size, std::int64_t count, std::int64_t element_bytes);

/// Moves payload that is too large to ride along with a header: each rank copies what the others
/// need into its rows, and takes what it needs from theirs, row by row, as far ahead as there are
/// rows. Every rank must make the same calls. All functions throw Stopped. One thread.
class Rows {
 public:
  Rows(Board& board, Fate& fate, Waiter& waiter)
      : board_(board),
        fate_(fate),
        waiter_(waiter),
        terms_(static_cast<std::size_t>(board.size())) {}

  /// Called for consecutive pieces of this rank's slice with every rank's elements [begin, begin +
  /// count) of it, in rank order; begin is a multiple of kEpilogueBlock.
  using Consume =
      FunctionRef<void(std::int64_t begin, std::int64_t count, std::span<const void* const> terms)>;

  /// Sends slice p of `in` to rank p, and consumes this rank's slice of everybody's.
  void exchange(const Slices& slices, const void* in, Consume consume);
  /// Fills `whole` with all ranks' slices; `own` is this rank's, and may be its place in `whole`.
  void gather(const Slices& slices, const void* own, void* whole);
  /// Copies root's bytes to all.
  void broadcast(int root, void* data, std::size_t bytes);

 private:
  struct Steps {
    std::int64_t rows = 0;
    FunctionRef<void(std::int64_t row)> publish;  // empty: this rank shows nothing
    FunctionRef<void(std::int64_t row)> consume;  // empty: this rank takes nothing
    int only_source = -1;                         // -1: all peers show something
  };

  void run(const Steps& steps);
  void publish(const Steps& steps, std::int64_t row);
  void consume(const Steps& steps, std::int64_t row);
  std::byte* row_of(int rank, std::int64_t row) const { return board_.row(rank, base_ + row); }

  Board& board_;
  Fate& fate_;
  Waiter& waiter_;
  std::int64_t base_ = 0;           // rows of earlier calls, on every rank alike
  std::vector<const void*> terms_;  // by rank: of the row that is consumed
};

}  // namespace zero::shm
