#pragma once

/// One checkpoint, saved by all ranks of a communicator together.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "libzero/collective/collective.h"

namespace zero::checkpoint {

struct SaveOutcome {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;  ///< Of all ranks' data.
  double seconds = 0;       ///< Wall time of the save, on this rank.
  /// The checkpoint is there; something less important failed (LATEST, cleaning up).
  std::vector<std::string> warnings;
};

/// What this rank brings along.
struct RankPart {
  RankState state;
  /// Empty, or why this rank cannot save: then no rank does.
  std::string refusal;
};

/// Collective: throws ContractError on every rank, with the same text, if a rank refuses to save,
/// or if `common` differs between ranks. Writes nothing.
void agree_to_save(const CommonState& common, const RankPart& part, Collective& comm);

/// The rest of save_on_ranks(). REQUIRES that agree_to_save() has not thrown for this state.
SaveOutcome save_agreed(Store& store, const CommonState& common, const RankPart& part,
                        Collective& comm);

/// Collective over `comm`. Rank 0 begins the save in its `store`, the others join in theirs (the
/// same root), each puts its part, rank 0 commits. `common` is rank 0's; the others' must be equal
/// to it. Returns the same outcome on every rank (but seconds).
///
/// Any failure, on whatever rank, makes every rank throw the same error, which names the rank and
/// the phase (begin, write, commit): ContractError where a rank refused or the step exists,
/// CommitUnknown, IoError; nothing has changed then but for CommitUnknown, and training can go on.
/// Throws CommError if a rank died or fell silent: nothing was committed, unless rank 0 had done so
/// already. A rank falls silent after the timeout of `comm`: that must be longer than ranks may
/// differ in writing their parts, and than the commit takes.
SaveOutcome save_on_ranks(Store& store, const CommonState& common, const RankPart& part,
                          Collective& comm);

}  // namespace zero::checkpoint
