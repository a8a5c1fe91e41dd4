#include "backends/rendezvous/roll_call.h"

#include <unistd.h>

#include <algorithm>

#include "backends/rendezvous/departures.h"
#include "backends/rendezvous/keyed_hash.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr const char* kVerdict = "verdict";
constexpr const char* kAllHere = "all here";

std::string card_of(int rank) {
  return "here/" + std::to_string(rank);
}

/// Who this is, for people, and unlike any other process.
std::string own_card() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on " + host + " (" + to_hex(random_bytes(8)) +
         ")";
}

/// "rank 3, process 71 on node0"
std::string announce(KeyValueStore& store, int rank, int size) {
  const std::string own_size = std::to_string(size);
  const std::string their_size = store.compare_and_set("world size", "", own_size);
  ZERO_REQUIRE(their_size == own_size,
               "connect: ranks disagree about the world size; start all of them alike: rank " +
                   std::to_string(rank) + " has " + own_size + ", another has " + their_size);
  const std::string card = own_card();
  const std::string holder = store.compare_and_set(card_of(rank), "", card);
  ZERO_REQUIRE(
      holder == card,
      "connect: two processes have the same rank; give each its own RANK, and each run its "
      "own store: rank " +
          std::to_string(rank) + " is already " + holder);
  return "rank " + std::to_string(rank) + ", " + card.substr(0, card.rfind(" ("));
}

std::vector<int> missing_ranks(KeyValueStore& store, int size) {
  store.add("arrived", 0);  // throws if the store is gone: then nobody is known to be missing
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    try {
      store.get(card_of(rank), 0ms);
    } catch (const CommError&) {
      missing.push_back(rank);
    }
  }
  return missing;
}

/// The first to give up decides for all, so that everyone throws the same, at once.
std::string give_verdict(KeyValueStore& store, int size, std::chrono::milliseconds timeout) {
  const std::string departure = first_departure(store);
  const std::vector<int> missing = missing_ranks(store, size);
  const std::string text =
      !departure.empty() ? departure
      : missing.empty()  ? kAllHere
                         : list_ranks(missing) + " did not come within " + in_words(timeout) +
                              "; look at what is printed there, or raise ZERO_TIMEOUT (seconds)";
  return store.compare_and_set(kVerdict, "", text);
}

}  // namespace

void call_roll(KeyValueStore& store, int rank, int size, std::chrono::milliseconds timeout) {
  // Only now: a second process of a rank that is here must be able to go without a word.
  prepare_farewell(store, announce(store, rank, size));
  if (store.add("arrived", 1) == size) store.compare_and_set(kVerdict, "", kAllHere);
  std::string verdict;
  try {
    verdict = store.get(kVerdict, timeout);
  } catch (const CommError&) {
    verdict = give_verdict(store, size, timeout);
  }
  if (verdict != kAllHere) {
    throw CommError("connect: " + verdict + " (rank " + std::to_string(rank) + " of " +
                    std::to_string(size) + " waited)");
  }
}

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  const bool cut = ranks.size() > kShown + 1;
  const std::size_t shown = cut ? kShown : ranks.size();
  std::string text = "ranks ";
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = !cut && i + 1 == shown;
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return cut ? text + " and " + std::to_string(ranks.size() - kShown) + " more" : text;
}

std::string in_words(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace zero::rendezvous
