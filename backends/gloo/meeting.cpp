#include "backends/gloo/meeting.h"

#include <algorithm>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/call_header.h"

namespace zero::gloo_backend {
namespace {

using Clock = std::chrono::steady_clock;

// A store that lives says in time, neither sooner nor much later, that a key is not there. (Waits
// are cut to whole milliseconds.)
constexpr auto kStoreHaste = std::chrono::milliseconds(10);
constexpr auto kStoreGrace = std::chrono::milliseconds(500);

std::chrono::milliseconds left_until(Clock::time_point deadline) {
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()),
                  std::chrono::milliseconds(1));
}

/// For each rank in turn the control and the data address it has to connect to; empty for the rank
/// itself.
struct Addresses {
  std::string published;
  std::size_t each = 0;

  Addresses(int rank, int size, const Links& control, const Links& data) {
    for (int peer = 0; peer < size; ++peer) {
      const std::string pair =
          peer == rank ? "" : control.address_for(peer) + data.address_for(peer);
      each = std::max(each, pair.size() / 2);
      published += pair;
    }
  }
};

/// Waits for all; throws naming every rank whose addresses are not there in time.
std::vector<std::string> collect(const Store& store, int rank, int size,
                                 std::chrono::milliseconds timeout, std::size_t bytes) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::string> published(static_cast<std::size_t>(size));
  std::vector<int> missing;
  std::string reason;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    try {
      auto& addresses = published[static_cast<std::size_t>(peer)];
      addresses = store.get(std::to_string(peer), bytes, left_until(deadline));
      if (addresses.size() != bytes) throw CommError("its addresses have a strange size");
    } catch (const CommError& error) {
      const auto now = Clock::now();
      if (now < deadline - kStoreHaste || now > deadline + kStoreGrace) {
        throw CommError("the ranks could not meet: rank " + std::to_string(rank) +
                        " learnt from the key-value store, which rank 0 or the launcher serves: " +
                        error.what());
      }
      missing.push_back(peer);
      reason = error.what();
    }
  }
  if (missing.empty()) return published;
  throw CommError(
      "the ranks could not meet: " + list_ranks(missing) + " of " + std::to_string(size) +
      " did not come within " + std::to_string(timeout.count()) +
      " ms; start all ranks, with the same world size and run id, or allow more time (" + reason +
      ")");
}

}  // namespace

void meet(const Store& store, int rank, int size, std::chrono::milliseconds timeout, Links& control,
          Links& data) {
  const Addresses mine(rank, size, control, data);
  store.set(std::to_string(rank), mine.published);
  const auto published = collect(store, rank, size, timeout, mine.published.size());
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::size_t index = static_cast<std::size_t>(rank > peer ? rank - 1 : rank);
    const std::string& theirs = published[static_cast<std::size_t>(peer)];
    try {
      control.connect(peer, theirs.substr(index * 2 * mine.each, mine.each));
      data.connect(peer, theirs.substr((index * 2 + 1) * mine.each, mine.each));
    } catch (const std::exception& error) {
      throw CommError("the ranks could not meet: rank " + std::to_string(rank) +
                      " has no connection with rank " + std::to_string(peer) + ": " + error.what() +
                      "; check that the ranks' interfaces reach each other (ZERO_INTERFACE)");
    }
  }
}

}  // namespace zero::gloo_backend
