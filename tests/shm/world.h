#pragma once

/// N ranks as N threads, each with its own mapping of the memory that they share.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero::shm_test {

inline constexpr std::chrono::milliseconds kPatience{20'000};

std::shared_ptr<Collective> join(int rank, int size, std::shared_ptr<KeyValueStore> store,
                                 std::chrono::milliseconds timeout = kPatience);

/// In rank order. Throws if a rank cannot join.
std::vector<std::shared_ptr<Collective>> make_world(int size, std::chrono::milliseconds timeout);

/// Runs `body` for every rank at once and returns what each threw, in rank order: "" or
/// "CommError: <text>". A body's communicator is destroyed on its own thread, without shutdown()
/// unless the body called it.
std::vector<std::string> run_ranks(int size, std::chrono::milliseconds timeout,
                                   const std::function<void(Collective&)>& body);

/// As above; shuts down at the end and expects that nothing throws.
void run_in_peace(int size, const std::function<void(Collective&)>& body);

/// What `call` throws: "", "ContractError: <text>" or "CommError: <text>".
std::string what_of(const std::function<void()>& call);

}  // namespace zero::shm_test
