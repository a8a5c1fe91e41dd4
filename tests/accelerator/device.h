#pragma once

/// A fake accelerator as a device of LibTorch's ("fake"): tensors, autograd and streams as
/// on a GPU, with the streams of the fake machine in tests/nccl/fake. Work on a stream happens
/// later; memory is the device's alone (memory.h). What it has no kernel of its own for it computes
/// with LibTorch's CPU kernels, so that results have the CPU's bits.
///
/// Linking it registers the device.

#include <c10/core/Device.h>

#include <functional>

namespace zero::accelerator_test {

inline constexpr int kDevices = 8;
/// What a device hands out in turn as streams of one's own.
inline constexpr int kPooledStreams = 4;

/// Device `index`, for the rank of that number.
c10::Device device(int index);

/// Runs on the present stream of `device`, later, on the device's thread.
void on_present_stream(c10::Device device, std::function<void()> work);

/// Waits until the present stream of `device` has nothing to do.
void wait_for_present_stream(c10::Device device);

}  // namespace zero::accelerator_test
