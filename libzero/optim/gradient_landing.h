#pragma once

/// Brings gradients from an accelerator to the host, bucket by bucket.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/bucket_reduction.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/stream_marks.h"

namespace zero {

/// Two places of pinned memory, each as large as the largest bucket: one bucket is on its way, on a
/// stream of its own, while the one before it is packed and reduced. The host waits where it needs
/// what has landed, and nowhere else.
///
/// Each bucket, in the order of begin(): begin(), await(), release(). Thread-safe.
class GradientLanding {
 public:
  /// Both must outlive this. Gradients lie on `model.device`, which has `patience` for each bucket.
  GradientLanding(const Layout& layout, const ParameterTable& model,
                  std::chrono::milliseconds patience);
  /// Waits until the device writes no more; where it does not come to that in time, the places stay
  /// allocated for good.
  ~GradientLanding();
  GradientLanding(const GradientLanding&) = delete;
  GradientLanding& operator=(const GradientLanding&) = delete;

  /// Gradients of the bucket are written by what this thread's present stream was given so far.
  void note_stream(std::int32_t bucket) { marks_.note(bucket); }

  /// All of the bucket's gradients have been given to streams that are noted. They leave when there
  /// is a place; with `zero_after` they become zero behind it. From here on `by_parameter` must
  /// stay as it is until await() returns. Never throws: await() says what went wrong.
  void begin(std::int32_t bucket, std::vector<Contribution>& by_parameter,
             bool zero_after) noexcept;

  /// Waits until the bucket has landed: its contributions are tensors in host memory now, valid
  /// until release(). Throws CommError where the device takes longer than its patience, and what
  /// LibTorch throws where it fails.
  void await(std::int32_t bucket);

  /// The place may be used again. Also for a bucket that nobody waits for any more.
  void release(std::int32_t bucket) noexcept;

  std::int64_t bytes() const noexcept;

 private:
  struct Request {
    std::int32_t bucket = -1;
    std::vector<Contribution>* by_parameter = nullptr;
    bool zero_after = false;
  };
  struct Place {
    explicit Place(c10::DeviceType type) : landed(type) {}
    at::Tensor memory;
    std::vector<at::Tensor> views;       // by parameter, of its shape
    std::int32_t bucket = -1;            // -1: free
    std::vector<at::Tensor> on_the_way;  // what is read must live until it is
    c10::Event landed;
    std::exception_ptr failure;
  };

  void make_views(Place& place) const;
  void start_waiting();
  void copy_down(const Request& request, Place& place);
  Place* place_of(std::int32_t bucket);

  const Layout& layout_;
  const ParameterTable& model_;
  const std::chrono::milliseconds patience_;
  const std::vector<std::string> names_;  // by bucket: what await() waits for
  c10::Stream down_;
  StreamMarks marks_;
  bool hangs_ = false;  // await() has waited in vain
  std::mutex mutex_;    // all below
  std::vector<Place> places_;
  std::vector<Request> waiting_;  // has room for all buckets: begin() takes no memory
};

}  // namespace zero
