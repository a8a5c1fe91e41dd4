#include "backends/shm/geometry.h"

#include <algorithm>

#include "libzero/collective/collective.h"

namespace zero::shm {
namespace {

constexpr std::size_t kPage = 4096;
// All rows of a rank should stay in a core's second level cache.
constexpr std::size_t kRowsBytes = 1 << 20;
constexpr std::size_t kLeastPiece = kEpilogueBlock * sizeof(float);
constexpr std::size_t kMostPiece = 256 << 10;

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

std::size_t Geometry::region_begin(int rank) const {
  return whole_pages(sizeof(Front)) + static_cast<std::size_t>(rank) * region_bytes();
}

std::size_t Geometry::region_bytes() const {
  return whole_pages(sizeof(Seat)) + rows_region_bytes();
}

std::size_t Geometry::rows_region_bytes() const {
  return whole_pages(static_cast<std::size_t>(kDepth) * row_bytes());
}

Geometry geometry_for(int size) {
  if (size == 1) return {1, 0};
  const std::size_t share = kRowsBytes / kDepth / static_cast<std::size_t>(size - 1);
  const std::size_t piece = share / kLeastPiece * kLeastPiece;
  return {size, std::clamp(piece, kLeastPiece, kMostPiece)};
}

}  // namespace zero::shm
