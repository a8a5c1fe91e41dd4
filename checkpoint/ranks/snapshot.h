#pragma once

/// A copy of all that a save needs.

#include <cstddef>
#include <memory>

#include "checkpoint/ranks/save.h"

namespace zero::checkpoint {

class Snapshot {
 public:
  /// Copies everything, into the memory of the last call where that is large enough. Does not throw
  /// for want of memory: part().refusal says so then, so that all ranks hear of it when they save.
  void take(const CommonState& common, const RankPart& part);

  const CommonState& common() const { return common_; }
  const RankPart& part() const { return part_; }

 private:
  void copy(const CommonState& common, const RankPart& part);
  void reserve(std::size_t bytes);

  CommonState common_;
  RankPart part_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace zero::checkpoint
