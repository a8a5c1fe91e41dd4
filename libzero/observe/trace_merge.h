#pragma once

/// Several ranks' timelines in one file, on one clock.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libzero/observe/clock_alignment.h"

namespace zero::observe {

struct MergedRank {
  int rank = 0;
  std::string file;
  std::int64_t events = 0;
  std::int64_t dropped = 0;  ///< That the rank had no room for.
  ClockOffset clock;         ///< Against the lowest rank's.
};

struct MergeResult {
  std::vector<MergedRank> ranks;  ///< By rank.
  std::vector<std::string> warnings;
};

/// Called now and then with bytes done and in all; what it throws ends the work.
using MergeProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The files that `place` names: itself, or, where it is a directory, its trace-rank-*.json, in the
/// order of names. Throws IoError if there are none.
std::vector<std::string> timelines_in(const std::string& place);

/// Writes `out`, a new file, whole or not at all, in memory that does not depend on the files'
/// sizes. Throws FormatError for files that are no timelines or not of one run, ContractError if
/// `out` exists, `files` is empty or two are of one rank, IoError, and what `progress` throws.
MergeResult merge_timelines(const std::vector<std::string>& files, const std::string& out,
                            const MergeProgress& progress = {});

}  // namespace zero::observe
