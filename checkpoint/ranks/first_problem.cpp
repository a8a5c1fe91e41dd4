#include "checkpoint/ranks/choose.h"
#include "checkpoint/ranks/exchange.h"
#include "checkpoint/ranks/failure.h"

namespace zero::checkpoint {

std::string first_problem(const std::string& problem, Collective& comm, std::string_view label) {
  return together(comm, std::string(label), [&]() -> std::string {
    const auto problems =
        gather_messages(bounded_text(problem), Receivers::kEveryRank, comm, std::string(label));
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      if (!problems[rank].empty()) return "rank " + std::to_string(rank) + ": " + problems[rank];
    }
    return {};
  });
}

}  // namespace zero::checkpoint
