#include "backends/shm/shm.h"

#include <sched.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "backends/shm/circle.h"
#include "backends/shm/communicator.h"
#include "backends/shm/meeting.h"
#include "libzero/base/error.h"

namespace zero::shm {
namespace {

void check(const Options& options) {
  ZERO_REQUIRE(options.size >= 1 && options.rank >= 0 && options.rank < options.size,
               "shm: rank must be in 0..size-1: rank " + std::to_string(options.rank) + ", size " +
                   std::to_string(options.size));
  ZERO_REQUIRE(options.timeout.count() > 0,
               "shm: timeout must be positive: " + std::to_string(options.timeout.count()) + " ms");
  ZERO_REQUIRE(options.store != nullptr, "shm: store must not be null");
}

/// A rank that looks again and again for another one must not keep that one from running.
bool has_core_for_each(int ranks) {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) >= ranks;
}

std::shared_ptr<Family> make_family(const Options& options, const Joining& joining) {
  auto family = std::make_shared<Family>();
  family->may_spin = has_core_for_each(options.size);
  family->guard = std::make_shared<Guard>(joining.processes());
  family->store = options.store;
  return family;
}

std::shared_ptr<Collective> make_communicator(const Options& options, const Joining& joining) {
  Board board(joining.segment(), joining.geometry(), options.rank);
  try {
    std::vector<int> processes(static_cast<std::size_t>(options.size));
    std::iota(processes.begin(), processes.end(), 0);
    auto circle =
        std::make_unique<Circle>(board, make_family(options, joining), std::move(processes),
                                 std::min(options.timeout, kForever));
    return std::make_shared<Communicator>(std::move(circle));
  } catch (const std::exception& error) {
    // The others have this rank's word that it has joined.
    Fate(board).fail("rank " + std::to_string(options.rank) + " gave up: " + error.what());
    throw;
  }
}

}  // namespace

Attempt try_to_join(const Options& options) {
  check(options);
  Joining joining(options.rank, options.size);
  auto refusal = meet(*options.store, options.rank, options.size,
                      std::min(options.timeout, kForever), joining);
  if (refusal) return {nullptr, std::move(refusal)};
  return {make_communicator(options, joining), nullptr};
}

std::shared_ptr<Collective> join(const Options& options) {
  Attempt attempt = try_to_join(options);
  if (attempt.refusal) std::rethrow_exception(attempt.refusal->error);
  return std::move(attempt.collective);
}

}  // namespace zero::shm
