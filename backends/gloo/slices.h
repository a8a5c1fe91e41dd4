#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/gloo/scratch.h"
#include "backends/gloo/transfers.h"
#include "libzero/base/function_ref.h"

namespace zero::gloo_backend {

/// Memory cut into one slice for each rank, in rank order.
struct Slices {
  int rank = 0;
  int size = 1;
  std::int64_t element_bytes = 1;
  std::int64_t whole = 0;  ///< Elements of all ranks.
  std::int64_t each = 0;   ///< Of one rank, while there are as many left.

  std::int64_t begin(int r) const { return std::min(whole, r * each); }
  std::int64_t count(int r) const { return begin(r + 1) - begin(r); }
  std::size_t bytes(int r) const { return static_cast<std::size_t>(count(r) * element_bytes); }
  std::size_t offset(int r) const { return static_cast<std::size_t>(begin(r) * element_bytes); }
};

Slices equal_slices(int rank, int size, std::int64_t each, std::int64_t element_bytes);

/// Cuts `count` elements into nearly equal slices; the last ones may be empty.
Slices near_equal_slices(int rank, int size, std::int64_t count, std::int64_t element_bytes);

/// Elements [begin, begin + count) of the own slice as every rank has them, in rank order.
using Consume =
    FunctionRef<void(std::int64_t begin, std::int64_t count, std::span<const void* const> terms)>;

/// Every rank sends each other rank that rank's slice of `in` and hands the own slice of all ranks
/// to `consume`, piece by piece in ascending order; pieces start at multiples of kEpilogueBlock.
/// Two segments a peer are in flight, which bounds the scratch to about 16 MiB or 128 KiB a peer,
/// whichever is more. Returns when `in` may be written.
void exchange_slices(Transfers& transfers, Scratch& scratch, const Slices& slices, const void* in,
                     Consume consume);

/// Every rank sends its own slice of `data` to all others and receives theirs in place.
void gather_slices(Transfers& transfers, const Slices& slices, void* data);

/// The peers of `rank` are those of steps 1 to size - 1: each rank starts with another one, so that
/// not all of them talk to rank 0 first.
inline int peer_at(int rank, int size, int step) {
  return (rank + step) % size;
}

}  // namespace zero::gloo_backend
