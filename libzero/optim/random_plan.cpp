#include "libzero/optim/random_plan.h"

#include <string>

#include "libzero/optim/random_state.h"
#include "libzero/optim/trainer_keys.h"

namespace zero {

using checkpoint::Blob;
using checkpoint::Reader;

std::optional<Blob> plan_random_state(const Reader& reader, const LoadOptions& options, int rank,
                                      LoadPlan& plan) {
  const std::string key(kRandomCpu);
  const bool is_saved_rank = rank < reader.info().world_size;
  const auto& own = reader.rank_blobs(is_saved_rank ? rank : 0);
  const auto& of_rank_0 = reader.rank_blobs(0);
  const auto add = [&](Restored how, const std::string& detail) {
    plan.items.push_back({"random state", how, detail});
  };
  if (!of_rank_0.contains(key) && !own.contains(key)) {
    add(Restored::kDefaulted, "not in the checkpoint: present state");
    return std::nullopt;
  }
  if (!options.random_state() || options.weights_only()) {
    add(Restored::kKept, "present state");
    return std::nullopt;
  }
  if (is_saved_rank && own.contains(key)) {
    const std::string problem = problem_of_random_state(own.at(key));
    if (!problem.empty()) plan.differences.push_back(problem + " (random_state(false) leaves it)");
    add(Restored::kRestored, "");
    return own.at(key);
  }
  add(Restored::kDerived, "rank " + std::to_string(rank) +
                              " has none in the checkpoint: from rank 0's, the rank and the step");
  return derived_random_state(of_rank_0.at(key), rank, reader.common().step);
}

}  // namespace zero
