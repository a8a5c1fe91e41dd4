#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/gloo/scratch.h"
#include "backends/gloo/transfers.h"

namespace zero::gloo_backend {

/// Memory cut into one slice for each rank: rank r's is elements [cuts[r], cuts[r + 1]).
struct Slices {
  int rank = 0;
  std::int64_t element_bytes = 1;
  std::vector<std::int64_t> cuts;

  int size() const { return static_cast<int>(cuts.size()) - 1; }
  std::int64_t count(int r) const {
    return cuts[static_cast<std::size_t>(r) + 1] - cuts[static_cast<std::size_t>(r)];
  }
  std::size_t bytes(int r) const { return static_cast<std::size_t>(count(r) * element_bytes); }
  std::size_t offset(int r) const {
    return static_cast<std::size_t>(cuts[static_cast<std::size_t>(r)] * element_bytes);
  }
};

Slices equal_slices(int rank, int size, std::int64_t each, std::int64_t element_bytes);

/// Cuts `count` elements into nearly equal slices; the last ones may be empty.
Slices near_equal_slices(int rank, int size, std::int64_t count, std::int64_t element_bytes);

/// Elements [begin, begin + count) of the own slice as every rank has them, in rank order.
using Consume =
    std::function<void(std::int64_t begin, std::int64_t count, std::span<const void* const> terms)>;

/// Every rank sends each other rank that rank's slice of `in` and hands the own slice of all ranks
/// to `consume`, piece by piece in ascending order; pieces start at multiples of kEpilogueBlock.
/// Two segments a peer are in flight, which bounds the scratch to about 16 MiB or 128 KiB a peer,
/// whichever is more. Returns when `in` may be written.
void exchange_slices(Transfers& transfers, Scratch& scratch, const Slices& slices, const void* in,
                     const Consume& consume);

/// Every rank sends its own slice of `data` to all others and receives theirs in place.
void gather_slices(Transfers& transfers, const Slices& slices, void* data);

/// The peers of `rank`, each rank starting with another one so that not all of them talk to rank 0
/// first.
std::vector<int> peers_of(int rank, int size);

}  // namespace zero::gloo_backend
