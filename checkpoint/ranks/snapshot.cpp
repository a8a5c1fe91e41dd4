#include "checkpoint/ranks/snapshot.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace zero::checkpoint {
namespace {

std::size_t bytes_of(const RankState& state) {
  std::size_t bytes = 0;
  for (const StateView& view : state.states) {
    for (const auto piece : view.pieces) {
      if (piece.size() > std::numeric_limits<std::ptrdiff_t>::max() - bytes) throw std::bad_alloc();
      bytes += piece.size();
    }
  }
  return bytes;
}

}  // namespace

void Snapshot::take(const CommonState& common, const RankPart& part) {
  try {
    copy(common, part);
  } catch (const std::exception& error) {
    common_ = {};
    common_.step = common.step;
    part_ = {};
    part_.refusal = std::string("the state could not be copied: ") + error.what();
  }
}

void Snapshot::copy(const CommonState& common, const RankPart& part) {
  reserve(bytes_of(part.state));
  common_ = common;
  part_ = part;
  std::byte* next = memory_.get();
  for (StateView& view : part_.state.states) {
    for (auto& piece : view.pieces) {
      if (piece.empty()) continue;
      std::memcpy(next, piece.data(), piece.size());
      piece = {next, piece.size()};
      next += piece.size();
    }
  }
}

void Snapshot::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  capacity_ = 0;
  memory_.reset();  // Before the new one is there: a shard may be half of the memory.
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  capacity_ = bytes;
}

}  // namespace zero::checkpoint
