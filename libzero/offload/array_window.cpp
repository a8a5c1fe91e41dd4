#include "libzero/offload/array_window.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"

namespace zero {

void ArrayWindow::for_each(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                           std::int64_t end, const Part& part) {
  while (begin < end) {
    const std::size_t block = plan_.find(bucket, begin);
    const OffloadBlock& where = plan_.blocks()[block];
    ZERO_REQUIRE(where.at[static_cast<std::size_t>(array)] >= 0,
                 "offload: this bucket keeps no such array: " + std::to_string(bucket));
    show(block, array);
    const std::int64_t stop = std::min(end, where.begin + where.count);
    auto* const values = reinterpret_cast<float*>(memory_.data()) + (begin - where.begin);
    try {
      if (part(begin, {values, static_cast<std::size_t>(stop - begin)})) changed_ = true;
    } catch (...) {
      changed_ = true;  // what it has written before counts
      throw;
    }
    begin = stop;
  }
}

void ArrayWindow::show(std::size_t block, OffloadedArray array) {
  const std::pair wanted(block, array);
  if (shown_ == wanted) return;
  flush();
  if (memory_.bytes() == 0) memory_ = PageMemory(plan_.largest_array());
  shown_.reset();
  file_.read_array(block, array, memory_.data());
  shown_ = wanted;
}

void ArrayWindow::flush() {
  if (!changed_) return;
  // A write that fails must not be tried again by whoever comes next.
  changed_ = false;
  const auto [block, array] = *shown_;
  shown_.reset();
  file_.write_array(block, array, memory_.data());
  shown_ = {block, array};
}

void ArrayWindow::forget() noexcept {
  shown_.reset();
  changed_ = false;
  memory_ = PageMemory();
}

}  // namespace zero
