#pragma once

/// A training state of a given size, cut as a transformer's is: matrices of a few MiB, vectors of a
/// few KiB.

#include <memory>
#include <vector>

#include "checkpoint/training_state.h"

namespace zero::checkpoint::benchmark {

class Model {
 public:
  /// About so many bytes of states in all; a third each of masters and the two moments.
  explicit Model(std::uint64_t bytes);

  const CommonState& common() const { return common_; }
  CommonState& common() { return common_; }
  /// Of the only rank.
  const RankState& part() const { return part_; }
  std::uint64_t bytes() const;
  /// Memory of each state, one parameter after the other.
  const std::vector<std::span<const std::byte>>& memory() const { return views_; }

 private:
  void add_parameter(const std::string& name, std::vector<std::int64_t> shape);
  void add_state(const std::string& name, std::int64_t numel);

  CommonState common_;
  RankState part_;
  std::vector<std::vector<std::uint32_t>> memory_;
  std::vector<std::span<const std::byte>> views_;
};

}  // namespace zero::checkpoint::benchmark
