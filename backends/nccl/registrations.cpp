#include "backends/nccl/registrations.h"

#include <algorithm>

namespace zero::nccl {

void Allocations::add(const Range& range) {
  const std::lock_guard lock(mutex_);
  ranges_.push_back(range);
}

void Allocations::remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const Range& range) { return range.begin == begin; });
}

std::optional<Range> Allocations::find(const void* data, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const Range& range) { return range.holds(data, bytes); });
  return found == ranges_.end() ? std::nullopt : std::optional(*found);
}

std::int64_t Registrations::add(const Range& range, void* handle) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({next_, range, handle});
  return next_++;
}

std::optional<void*> Registrations::remove(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.number == number; });
  if (found == entries_.end()) return std::nullopt;
  void* const handle = found->handle;
  entries_.erase(found);
  return handle;
}

std::vector<void*> Registrations::remove_all() {
  const std::lock_guard lock(mutex_);
  std::vector<void*> handles;
  for (const Entry& entry : entries_) handles.push_back(entry.handle);
  entries_.clear();
  return handles;
}

bool Registrations::hold(const void* data, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.range.holds(data, bytes); });
}

}  // namespace zero::nccl
