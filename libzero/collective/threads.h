#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero {

/// N ranks in one process: element r of the result is rank r's communicator, to be driven by a
/// thread of its own. Ranks read each other's memory directly. A call does its work before it
/// returns; it waits for the other ranks at most `timeout` and its failure comes out of
/// Work::wait(). A rank whose Collective is destroyed without shutdown() counts as dead: the others
/// get a CommError that names it, at once. An epilogue must not run longer than the timeout. Throws
/// ContractError if world_size is less than 1 or timeout is not positive.
std::vector<std::shared_ptr<Collective>> make_threads(int world_size,
                                                      std::chrono::milliseconds timeout);

}  // namespace zero
