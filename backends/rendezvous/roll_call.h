#pragma once

/// All ranks of a run announce themselves, so that those that do not come can be named.

#include <chrono>
#include <string>
#include <vector>

#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {

/// Announces `rank` and waits for the others. `store` must be this run's own (with_prefix).
/// From then on, until take_back_farewell() (departures.h), the others are told if this one leaves.
/// Throws CommError naming the ranks that did not come, or one that has left (before the timeout if
/// `store` is heeding_departures()), the same on every rank that did;
/// ContractError if another process has announced the same rank or another world size.
void call_roll(KeyValueStore& store, int rank, int size, std::chrono::milliseconds timeout);

/// "rank 3", "ranks 2 and 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 12 more".
std::string list_ranks(const std::vector<int>& ranks);

/// "60 s", "1500 ms".
std::string in_words(std::chrono::milliseconds time);

}  // namespace zero::rendezvous
