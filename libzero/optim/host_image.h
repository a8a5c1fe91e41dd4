#pragma once

/// A model on an accelerator beside the image of its trainable parameters in host memory.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

/// The optimizer steps and gathers the image; buckets go up to the model one by one, on a stream of
/// their own, while later ones are stepped. Knows LibTorch's devices, streams and events, of
/// whatever kind. Throws CommError where the host waits for the device longer than `patience`, and
/// what LibTorch throws where the device fails.
///
/// All members but upload() belong to the thread that trains. Between begin_update() and
/// finish_update() upload() may be called on another one.
class HostImage {
 public:
  /// Puts images in place of the trainable tensors of `table`, in pinned memory, and keeps the
  /// model's own. Table and layout must outlive this. Call download() before the images are used,
  /// or download_changed() where there is one `before`, of which nothing is on its way: tensors
  /// that it has an image of share it, and what it knows of them counts here. Throws Error where
  /// there is no room.
  HostImage(ParameterTable& table, const Layout& layout, std::chrono::milliseconds patience,
            const HostImage* before = nullptr);
  /// Waits until the device reads and writes images no more; where it does not come to that in
  /// time, they stay allocated for good.
  ~HostImage();
  HostImage(const HostImage&) = delete;
  HostImage& operator=(const HostImage&) = delete;

  /// The tensors of the model itself.
  ParameterTable& model() noexcept { return model_; }
  const ParameterTable& model() const noexcept { return model_; }

  /// Images := model.
  void download();
  /// The same for parameters that somebody has written or replaced since remember(), and those that
  /// no image was made of yet. Leaves out what has another shape now, or lies elsewhere: there is
  /// no image of that.
  void download_changed();

  /// Images change from here on, no sooner: what is on its way up has arrived. What reads the model
  /// now reads the old values.
  void begin_update();
  /// Model := image, for the parameters of one bucket. Returns before it is done, and counts as no
  /// change of the model for autograd.
  void upload(std::int32_t bucket);
  /// What the present stream is given from here on sees the new values.
  void finish_update();
  /// begin_update(), upload() of each bucket, finish_update(), remember().
  void upload_all();

  /// What the model holds now is what the images hold.
  void remember();

  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  struct Seen {
    std::int64_t version = 0;
    const void* data = nullptr;
  };
  Seen state_of(std::size_t parameter) const;
  void share(const HostImage& before);
  bool fits(std::size_t parameter) const;
  void start_download(std::size_t parameter);
  void finish_downloads();  // also those that an earlier call has given up waiting for
  void wait(const c10::Event& event, std::string_view what);
  bool has_image(std::size_t parameter) const;
  c10::Stream present_stream() const;

  ParameterTable& images_;
  const Layout& layout_;
  const std::chrono::milliseconds patience_;
  ParameterTable model_;
  std::vector<Seen> seen_;  // by parameter
  c10::Stream up_;
  c10::Event begun_;                      // on the stream that was present
  c10::Event done_;                       // on up_
  c10::Event down_;                       // on the stream that was present: images are the model
  std::optional<c10::Stream> downloads_;  // where some may still be on their way
  bool hangs_ = false;                    // wait() has waited in vain
  std::int64_t bytes_ = 0;
};

}  // namespace zero
