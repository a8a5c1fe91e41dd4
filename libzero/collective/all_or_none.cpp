#include "libzero/collective/all_or_none.h"

#include <algorithm>

#include "libzero/collective/messages.h"

namespace zero {

void require_no_failure(const std::optional<Failure>& failure, Collective& comm,
                        const std::string& label) {
  together(comm, label, [&] {
    const auto messages = gather_messages(to_message(failure), Receivers::kEveryRank, comm, label);
    const auto failed = [](const std::string& message) { return !message.empty(); };
    const auto first = std::find_if(messages.begin(), messages.end(), failed);
    if (first == messages.end()) return;
    const auto theirs = parse_failure(*first);
    if (!theirs) throw LocalFailure("another rank's error arrived damaged");
    const bool is_everybodys = std::all_of(messages.begin(), messages.end(),
                                           [&](const std::string& m) { return m == *first; });
    const std::string rank = "rank " + std::to_string(first - messages.begin()) + ": ";
    wait_until_all_know(comm, label);
    throw_failure(theirs->kind, (is_everybodys ? "" : rank) + theirs->text);
  });
}

std::string first_problem(const std::string& problem, Collective& comm, const std::string& label) {
  return together(comm, label, [&]() -> std::string {
    const auto problems =
        gather_messages(bounded_text(problem), Receivers::kEveryRank, comm, label);
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      if (problems[rank].empty()) continue;
      wait_until_all_know(comm, label);
      return "rank " + std::to_string(rank) + ": " + problems[rank];
    }
    return {};
  });
}

}  // namespace zero
