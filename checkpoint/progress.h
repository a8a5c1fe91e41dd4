#pragma once

/// How long work tells its caller how far it is, and is told to stop.

#include <cstdint>
#include <functional>

#include "libzero/base/error.h"

namespace zero::checkpoint {

/// Called now and then, on the caller's thread, with bytes done so far and in all. Returns false to
/// stop: the function then throws Cancelled and leaves nothing half-written. May be empty.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// Progress said stop. Nothing was changed.
class Cancelled : public Error {
 public:
  using Error::Error;
};

}  // namespace zero::checkpoint
