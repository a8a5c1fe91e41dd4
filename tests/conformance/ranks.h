#pragma once

/// Runs one thread a rank.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "libzero/base/error.h"
#include "tests/conformance/cases.h"
#include "tests/stopwatch.h"
#include "tests/thrown.h"

namespace zero::testing {

/// Long enough for a loaded machine under a sanitizer: no test that passes waits this long.
inline constexpr std::chrono::milliseconds kPatience{30'000};

/// What a rank does. It may reset its communicator to leave without shutdown().
using RankBody = std::function<void(std::shared_ptr<Collective>& comm)>;

/// Makes a world and runs `body` on every rank. Afterwards every rank that still has its
/// communicator shuts it down. An exception that leaves `body` is a test failure that names the
/// rank, and ends the world.
void run_ranks(const Setting& setting, const RankBody& body,
               std::chrono::milliseconds timeout = kPatience);

void expect_contains(const std::string& text, const std::string& part);

}  // namespace zero::testing
