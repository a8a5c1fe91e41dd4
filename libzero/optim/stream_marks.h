#pragma once

/// Which streams of an accelerator the gradients of each bucket are written on.

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace zero {

/// Thread-safe. Throws what LibTorch throws where the device fails.
class StreamMarks {
 public:
  StreamMarks(c10::Device device, std::size_t buckets) : device_(device), marks_(buckets) {}

  /// Gradients of the bucket are written by what this thread's present stream was given so far.
  void note(std::int32_t bucket);
  /// `stream` goes on when all that is noted is written.
  void block(std::int32_t bucket, const c10::Stream& stream);

 private:
  struct Mark {
    c10::Stream stream;
    c10::Event event;
  };

  const c10::Device device_;
  std::mutex mutex_;
  std::vector<std::vector<Mark>> marks_;  // by bucket
};

}  // namespace zero
