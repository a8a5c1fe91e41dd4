#pragma once

/// A rank that dies or gives up between joining the store and being connected to all others is
/// heard of at once, not at a timeout: the store's server sees its connection end.

#include <memory>
#include <string>

#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {

/// From now until take_back_farewell() the end of this client's connection tells the others that
/// `who` ("rank 3, process 71 on node0") has left. `store` must be the run's own (with_prefix).
void prepare_farewell(KeyValueStore& store, const std::string& who);
void take_back_farewell(KeyValueStore& store);

/// "rank 3, ... left before all ranks had met; ..." of the first that left, or "" if nobody did.
/// Throws CommError if the store is lost.
std::string first_departure(KeyValueStore& store);

/// The same store, but a get() that waits ends with a CommError soon after a rank has left.
std::shared_ptr<KeyValueStore> heeding_departures(std::shared_ptr<KeyValueStore> store);

}  // namespace zero::rendezvous
