#pragma once

#include <cstddef>
#include <span>

namespace zero::checkpoint {

/// memcpy past the caches, for copies that nobody reads soon: it does not read the destination's
/// old content first, and leaves the training's working set where it is. REQUIRES dst.size() ==
/// src.size(), no overlap. Other threads see it as they see a memcpy.
void stream_copy(std::span<std::byte> dst, std::span<const std::byte> src) noexcept;

}  // namespace zero::checkpoint
