#include "checkpoint/ranks/snapshot.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

#include "checkpoint/ranks/stream_copy.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max();

std::size_t width_of(const StateView& view) {
  return static_cast<std::size_t>(size_of(view.dtype));
}

/// Elements times their width, or what is nonsense and no memory could hold.
std::size_t bytes_of(const StateView& view, const Extent& extent) {
  if (extent.begin < 0 || extent.end < extent.begin) throw std::bad_alloc();
  const auto count = static_cast<std::size_t>(extent.end - extent.begin);
  if (count > kMost / width_of(view)) throw std::bad_alloc();
  return count * width_of(view);
}

std::size_t bytes_of(const RankState& state) {
  std::size_t total = 0;
  const auto add = [&](std::size_t bytes) {
    if (bytes > kMost - total) throw std::bad_alloc();
    total += bytes;
  };
  for (const StateView& view : state.states) {
    for (const auto piece : view.pieces) add(piece.size());
    if (!view.fill) continue;
    for (const Extent& extent : view.extents) add(bytes_of(view, extent));
  }
  return total;
}

void fill(const StateView& view, const Extent& extent, std::span<std::byte> dst) {
  const auto most = static_cast<std::int64_t>(kMaxPartBytes / width_of(view));
  for (std::int64_t begin = extent.begin; begin < extent.end; begin += most) {
    const std::int64_t end = std::min(extent.end, begin + most);
    const std::size_t bytes = bytes_of(view, {extent.parameter, begin, end});
    view.fill({extent.parameter, begin, end}, dst.first(bytes));
    dst = dst.subspan(bytes);
  }
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
  std::span<std::byte> rest(memory_.get(), capacity_);
  const auto take = [&](std::size_t bytes) {
    const std::span<std::byte> taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  for (StateView& view : part_.state.states) {
    for (auto& piece : view.pieces) {
      const std::span<std::byte> copied = take(piece.size());
      stream_copy(copied, piece);
      piece = copied;
    }
    if (!view.fill) continue;
    for (const Extent& extent : view.extents) {
      const std::span<std::byte> copied = take(bytes_of(view, extent));
      fill(view, extent, copied);
      view.pieces.push_back(copied);
    }
    view.fill = nullptr;
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
