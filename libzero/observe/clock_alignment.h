#pragma once

/// How far another rank's clock is from the first one's, from collectives that both made: each ends
/// on no rank before it has begun on every one.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "libzero/observe/trace_reader.h"

namespace zero::observe {

/// Times of the other clock minus `offset` are times of the reference.
struct ClockOffset {
  Nanoseconds offset = 0;
  /// The truth lies within offset +- error.
  Nanoseconds error = 0;
  std::int64_t collectives = 0;  ///< That it was taken from; 0: the clocks are one.
};

/// The collectives of the rank whose clock counts. Not thread-safe.
class ClockReference {
 public:
  /// Remembers the collectives of the reference; what lies beyond the first 65,536 it forgets.
  void add(const TraceEvent& event);

 private:
  friend class ClockComparison;
  using Key = std::tuple<std::int64_t, int, std::int64_t>;  // step, thread, sequence
  struct Collective {
    std::string name;
    Nanoseconds begin = 0;
    Nanoseconds end = 0;
  };
  std::map<Key, Collective> collectives_;
};

/// Compares another rank's collectives with them. Not thread-safe; several may share a reference
/// that is complete.
class ClockComparison {
 public:
  /// `reference` is complete and must outlive this.
  explicit ClockComparison(const ClockReference& reference) : reference_(reference) {}

  /// Takes a collective of the other rank into account; other spans, and what the reference does
  /// not have, count for nothing. Throws FormatError if the ranks made different collectives: they
  /// are not of one run.
  void add(const TraceEvent& event);

  /// `may_be_one`: both clocks have the same name; they count as one unless the collectives say
  /// otherwise. Throws FormatError where no collective is common to both, or they contradict each
  /// other.
  ClockOffset result(bool may_be_one) const;

 private:
  const ClockReference& reference_;
  // Bounds of the offset.
  Nanoseconds least_ = 0;
  Nanoseconds most_ = 0;
  Nanoseconds first_ = 0;
  Nanoseconds last_ = 0;
  std::int64_t collectives_ = 0;
};

}  // namespace zero::observe
