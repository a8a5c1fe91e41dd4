#include "checkpoint/tools/reshard_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/rank_memory.h"

namespace zero::checkpoint {
namespace {

using Kind = std::pair<std::string, DType>;

Ownership checked_ownership(const CommonState& common, int world_size) {
  try {
    return Ownership(common, world_size);
  } catch (const ContractError& error) {
    throw FormatError(
        std::string("the checkpoint's parameters cannot be cut into shards, no trainer of this "
                    "library wrote it: ") +
        error.what());
  }
}

std::vector<Kind> kinds_of(const Reader& source, std::int32_t row) {
  std::vector<Kind> kinds;
  if (source.common().parameters[static_cast<std::size_t>(row)].alias_of != -1) return kinds;
  for (std::string& state : source.states(row)) {
    const DType dtype = source.dtype(row, state);
    kinds.emplace_back(std::move(state), dtype);
  }
  return kinds;
}

/// Without what was true of the old world's ranks only.
std::map<std::string, Blob> lasting(std::map<std::string, Blob> blobs) {
  blobs.erase(std::string(kRankMemory));
  return blobs;
}

}  // namespace

ReshardPlan::ReshardPlan(const Reader& source, int world_size)
    : source_(source),
      common_(source.common()),
      ownership_(checked_ownership(common_, world_size)),
      kinds_of_row_(common_.parameters.size()) {
  for (int rank = world_size; rank < source.info().world_size; ++rank) {
    auto blobs = lasting(source.rank_blobs(rank));
    if (!blobs.empty()) common_.surplus_rank_blobs.emplace(rank, std::move(blobs));
  }
  std::erase_if(common_.surplus_rank_blobs,
                [&](const auto& entry) { return entry.first < world_size; });
  std::vector<std::vector<Kind>> kinds;
  std::set<Kind> all;
  for (std::size_t row = 0; row < kinds_of_row_.size(); ++row) {
    kinds.push_back(kinds_of(source, static_cast<std::int32_t>(row)));
    all.insert(kinds.back().begin(), kinds.back().end());
  }
  kinds_.assign(all.begin(), all.end());
  trainable_.resize(kinds_.size());
  for (std::size_t row = 0; row < kinds.size(); ++row) {
    for (const Kind& kind : kinds[row]) {
      const auto found = std::lower_bound(kinds_.begin(), kinds_.end(), kind);
      const auto index = static_cast<std::size_t>(found - kinds_.begin());
      kinds_of_row_[row].push_back(index);
      if (common_.parameters[row].trainable) trainable_[index] = true;
    }
  }
}

std::vector<StateView> ReshardPlan::views(int rank) const {
  std::vector<Extent> extents = ownership_.trainable(rank);
  const std::vector<Extent> frozen = ownership_.frozen(rank);
  extents.insert(extents.end(), frozen.begin(), frozen.end());
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.parameter < b.parameter; });
  std::vector<StateView> views;
  for (const auto& [state, dtype] : kinds_) views.push_back({state, dtype, {}, {}});
  for (const Extent& extent : extents) {
    for (const std::size_t kind : kinds_of_row_[static_cast<std::size_t>(extent.parameter)]) {
      views[kind].extents.push_back(extent);
    }
  }
  std::vector<StateView> held;
  for (std::size_t kind = 0; kind < views.size(); ++kind) {
    if (trainable_[kind] || !views[kind].extents.empty()) held.push_back(std::move(views[kind]));
  }
  return held;
}

std::map<std::string, Blob> ReshardPlan::blobs(int rank) const {
  if (rank < source_.info().world_size) return lasting(source_.rank_blobs(rank));
  const auto& surplus = source_.common().surplus_rank_blobs;
  const auto found = surplus.find(rank);
  return found == surplus.end() ? std::map<std::string, Blob>() : found->second;
}

}  // namespace zero::checkpoint
