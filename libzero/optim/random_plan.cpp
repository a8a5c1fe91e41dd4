#include "libzero/optim/random_plan.h"

#include <set>
#include <string>

#include "libzero/optim/random_state.h"

namespace zero {
namespace {

using checkpoint::Blob;
using checkpoint::Reader;

constexpr std::string_view kPrefix = "random.";

/// -1 if there is none.
int first_rank_with(const Reader& reader, const std::string& key) {
  for (int rank = 0; rank < reader.info().world_size; ++rank) {
    if (reader.rank_blobs(rank).contains(key)) return rank;
  }
  return -1;
}

/// Of another kind of device than the CPU, whose lines have always been called like this.
std::string item_of(const std::string& key) {
  const std::string kind = key.substr(kPrefix.size());
  return kind == "cpu" ? "random state" : "random state of " + kind;
}

}  // namespace

std::optional<Blob> plan_random_state(const Reader& reader, const LoadOptions& options, int rank,
                                      LoadPlan& plan, c10::Device device) {
  const std::string key = random_key(device.type());
  const auto add = [&](Restored how, const std::string& detail) {
    plan.items.push_back({item_of(key), how, detail});
  };
  const bool has_own = rank < reader.info().world_size && reader.rank_blobs(rank).contains(key);
  const int source = has_own ? rank : first_rank_with(reader, key);
  if (source < 0) {
    add(Restored::kDefaulted, "not in the checkpoint: present state");
    return std::nullopt;
  }
  if (!options.random_state() || options.weights_only()) {
    add(Restored::kKept, "present state");
    return std::nullopt;
  }
  const Blob& state = reader.rank_blobs(source).at(key);
  if (has_own) {
    const std::string problem = problem_of_random_state(state, device);
    if (!problem.empty()) plan.differences.push_back(problem + " (random_state(false) leaves it)");
    add(Restored::kRestored, "");
    return state;
  }
  add(Restored::kDerived, "rank " + std::to_string(rank) +
                              " has none in the checkpoint: from rank " + std::to_string(source) +
                              "'s, the rank and the step");
  return derived_random_state(state, rank, reader.common().step, device);
}

void note_other_random_states(const Reader& reader, int rank, c10::Device device, LoadPlan& plan) {
  std::set<std::string> others;
  for (int saved = 0; saved < reader.info().world_size; ++saved) {
    for (const auto& [key, blob] : reader.rank_blobs(saved)) {
      if (key.starts_with(kPrefix)) others.insert(key);
    }
  }
  others.erase(random_key(c10::kCPU));
  others.erase(random_key(device.type()));
  for (const std::string& key : others) {
    plan.items.push_back({item_of(key), Restored::kDropped,
                          "rank " + std::to_string(rank) + " trains on " + device.str()});
  }
}

}  // namespace zero
