#pragma once

/// Runs one thread a rank.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "libzero/base/error.h"
#include "tests/conformance/cases.h"

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

/// Runs `action`, which must throw an Expected, and returns the message.
template <typename Expected, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error was thrown: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void expect_contains(const std::string& text, const std::string& part);

class Stopwatch {
 public:
  std::chrono::milliseconds elapsed() const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace zero::testing
