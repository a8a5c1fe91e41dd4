#include "libzero/optim/stream_marks.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace zero {

void StreamMarks::note(std::int32_t bucket) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const std::lock_guard lock(mutex_);
  std::vector<Mark>& marks = marks_[static_cast<std::size_t>(bucket)];
  auto mark = std::find_if(marks.begin(), marks.end(),
                           [&](const Mark& known) { return known.stream == stream; });
  if (mark == marks.end())
    mark = marks.insert(marks.end(), Mark{stream, c10::Event(device_.type())});
  mark->event.record(stream);
}

void StreamMarks::block(std::int32_t bucket, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  for (const Mark& mark : marks_[static_cast<std::size_t>(bucket)]) mark.event.block(stream);
}

}  // namespace zero
