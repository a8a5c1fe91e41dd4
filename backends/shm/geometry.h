#pragma once

/// What lies where in the memory that the ranks of a communicator share. Every region begins on a
/// page of its own; memory that nobody has written is zero, which is how everything begins.
///
///   Front                      once
///   Seat, then rows            for each rank, written by that rank alone (but for Seat::bell)
///
/// A row is what a rank shows the others in one go, in pieces: one for each peer. A rank has
/// kDepth rows, used in turns.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libzero/collective/call_header.h"

namespace zero::shm {

inline constexpr std::int64_t kDepth = 4;
inline constexpr std::size_t kLine = 64;  ///< Bytes that two cores fight over.

struct Front {
  static constexpr std::uint64_t kMagic = 0x31306d68736f7a00u;  ///< "zoshm01", changes with layout.

  std::uint64_t magic;
  std::uint64_t
      nonce[2];  ///< What the creator told the others: they are looking at the same memory.
  /// 0, or 1 + the rank whose Seat::reason is why this communicator is dead.
  alignas(kLine) std::atomic<std::uint32_t> dead;
};

/// What a rank has done so far, counted from the communicator's beginning.
enum class Progress : std::uint32_t {
  kArrived = 0,    ///< Exchanges of headers begun.
  kPublished = 1,  ///< Rows shown.
  kConsumed = 2,   ///< Rows of all others that it needs no more.
};

struct Counter {
  alignas(kLine) std::atomic<std::uint64_t> value;
};

/// A header, and what rides along with it.
struct Message {
  static constexpr std::size_t kInlineBytes = (32 << 10) - sizeof(CallHeader);

  CallHeader header;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Message) == 32 << 10);

struct Seat {
  static constexpr std::size_t kReasonBytes = 8 << 10;

  /// Rung by others; the rank sleeps on it.
  alignas(kLine) std::atomic<std::uint32_t> bell;
  /// 0, or 1 + the rank that this one waits for, until progress[waiting_kind] of that rank is at
  /// least waiting_value.
  alignas(kLine) std::atomic<std::uint32_t> waiting_for;
  std::atomic<std::uint32_t> waiting_kind;
  std::atomic<std::uint64_t> waiting_value;
  Counter progress[3];        ///< By Progress.
  char reason[kReasonBytes];  ///< Written once, before Front::dead says so.
  Message messages[2];        ///< Those of odd exchanges in [1], of even ones in [0].
};

struct Geometry {
  int size = 1;
  std::size_t piece_bytes = 0;  ///< A multiple of kEpilogueBlock elements of any type.

  std::size_t row_bytes() const { return static_cast<std::size_t>(size - 1) * piece_bytes; }
  std::size_t rows_region_bytes() const;
  std::size_t region_begin(int rank) const;
  std::size_t region_bytes() const;  ///< Of one rank.
  std::size_t total_bytes() const { return region_begin(size); }

  bool operator==(const Geometry&) const = default;
};

Geometry geometry_for(int size);

}  // namespace zero::shm
