#pragma once

/// Reads a timeline's file from front to back, one line in memory at a time. Nothing in it is
/// trusted.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "libzero/optim/observer.h"

namespace zero::observe {

/// What the first line says.
struct TraceHead {
  int rank = 0;
  int world_size = 1;
  std::string clock;  ///< Files with the same text share a clock. Empty: unknown.
  Nanoseconds origin = 0;
  std::int64_t dropped = 0;
};

/// One span of a rank's timeline.
struct TraceEvent {
  std::string name;
  std::string kind;       ///< "reduce", ...
  Nanoseconds begin = 0;  ///< On the rank's own clock.
  Nanoseconds duration = 0;
  int thread = 0;
  std::string arguments;  ///< JSON.
  std::int64_t step = 0;
  std::int64_t sequence = -1;  ///< -1: no collective.

  /// On the rank's own clock.
  Nanoseconds end() const noexcept { return begin + duration; }
};

/// Reads a rank's timeline line by line, in bounded memory. Not thread-safe.
class TraceReader {
 public:
  /// Throws IoError if the file cannot be read, FormatError naming file and line if it is no
  /// timeline of one rank.
  explicit TraceReader(const std::string& path);

  /// What the file says of itself, before its first event.
  const TraceHead& head() const noexcept { return head_; }
  /// Reads the next event; false at the end, where `event` is undefined. Throws as the constructor
  /// does, also for a file that ends early.
  bool next(TraceEvent& event);
  /// Bytes of the file read so far.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::string_view line();
  void read_head();
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::ifstream file_;
  std::vector<char> buffer_;
  TraceHead head_;
  std::uint64_t line_ = 0;
  std::uint64_t bytes_ = 0;
  bool is_last_ = false;
};

}  // namespace zero::observe
