#pragma once

/// A small training state with a bit of everything, whose every element is known.

#include <deque>

#include "checkpoint/store.h"

namespace zero::checkpoint {

/// Owns the memory of what it hands out.
class Sample {
 public:
  /// Everything but the names depends on `step`, so that two steps never look alike.
  explicit Sample(std::int64_t step, int world_size);

  const CommonState& common() const { return common_; }
  CommonState& common() { return common_; }
  int world_size() const { return static_cast<int>(ranks_.size()); }
  const RankState& rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  RankState& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Leaves out what `keep` does not name, and everything else that may be left out.
  void shrink(const std::string& keep);

  /// What reading back must give.
  static std::vector<std::byte> expected(std::int64_t step, std::string_view state, DType dtype,
                                         const Extent& extent);

 private:
  void add_state(int rank, const std::string& name, DType dtype,
                 const std::vector<std::int32_t>& parameters);

  CommonState common_;
  std::vector<RankState> ranks_;
  std::deque<std::vector<std::byte>> memory_;
};

std::vector<ParameterSpec> sample_parameters();

/// One parameter with one state.
Sample tiny_sample(std::int64_t step, int world_size);

/// Saves the sample: put from one thread after the other. Returns commit's result.
CommitResult save(Store& store, const Sample& sample);
CommitResult save(Store& store, std::int64_t step, int world_size);

/// Empty if the reader gives back exactly the sample of that step and world size, otherwise the
/// first difference.
std::string difference(const Reader& reader, std::int64_t step, int world_size);

}  // namespace zero::checkpoint
