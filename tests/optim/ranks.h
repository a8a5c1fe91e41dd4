#pragma once

/// Runs a function on every rank of one process, a thread each.

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/threads.h"

namespace zero::testing {

using RankFunction = std::function<void(const std::shared_ptr<Collective>& comm)>;

/// What each rank threw; null where it did not.
inline std::vector<std::exception_ptr> run_ranks(std::vector<std::shared_ptr<Collective>> comms,
                                                 const RankFunction& function) {
  std::vector<std::exception_ptr> errors(comms.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        function(comms[rank]);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
      comms[rank] = nullptr;  // a rank that failed is gone for the others
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::string message_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// Makes the worlds of on_ranks(), one communicator a rank. A program that tests another backend
/// replaces it before main().
using MakeWorld = std::function<std::vector<std::shared_ptr<Collective>>(
    int world_size, std::chrono::milliseconds timeout)>;
inline MakeWorld make_world = &make_threads;

/// Runs on `world_size` threads and rethrows the first error.
inline void on_ranks(int world_size, const RankFunction& function) {
  const auto errors = run_ranks(make_world(world_size, std::chrono::seconds(60)), function);
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Runs on `world_size` threads and returns each rank's error text.
inline std::vector<std::string> errors_on_ranks(
    int world_size, const RankFunction& function,
    std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  std::vector<std::string> messages;
  for (const auto& error : run_ranks(make_threads(world_size, timeout), function)) {
    messages.push_back(message_of(error));
  }
  return messages;
}

}  // namespace zero::testing
