#include "libzero/optim/all_or_none.h"

#include <algorithm>

#include "checkpoint/ranks/exchange.h"

namespace zero {

using checkpoint::Failure;

namespace {

/// Whoever throws may leave at once, while the last message to a slower rank is still under way.
void wait_until_all_know(Collective& comm, const std::string& label) {
  try {
    comm.barrier(label)->wait();
  } catch (const CommError&) {  // what is to be thrown came first
  }
}

}  // namespace

void require_no_failure(const std::optional<Failure>& failure, Collective& comm,
                        const std::string& label) {
  checkpoint::together(comm, label, [&] {
    const auto messages = checkpoint::gather_messages(
        checkpoint::to_message(failure), checkpoint::Receivers::kEveryRank, comm, label);
    const auto failed = [](const std::string& message) { return !message.empty(); };
    const auto first = std::find_if(messages.begin(), messages.end(), failed);
    if (first == messages.end()) return;
    const auto theirs = checkpoint::parse_failure(*first);
    if (!theirs) throw checkpoint::LocalFailure("another rank's error arrived damaged");
    const bool is_everybodys = std::all_of(messages.begin(), messages.end(),
                                           [&](const std::string& m) { return m == *first; });
    const std::string rank = "rank " + std::to_string(first - messages.begin()) + ": ";
    wait_until_all_know(comm, label);
    checkpoint::throw_failure(theirs->kind, (is_everybodys ? "" : rank) + theirs->text);
  });
}

void require_same(const std::string& what, const std::string& text, Collective& comm) {
  checkpoint::together(comm, what, [&] {
    const auto all =
        checkpoint::gather_messages(text, checkpoint::Receivers::kEveryRank, comm, what);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      wait_until_all_know(comm, what);
      throw ContractError(what + " must be the same on every rank: rank 0 has '" + all[0] +
                          "', rank " + std::to_string(rank) + " has '" + all[rank] + "'");
    }
  });
}

}  // namespace zero
