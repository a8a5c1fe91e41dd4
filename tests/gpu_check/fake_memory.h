#pragma once

namespace zero::gpu_check {

/// From now on the fake device's memory is counted as LibTorch's allocator of a GPU counts its own.
/// `forgets`: every other piece is counted twice, and given back once.
void count_fake_memory(bool forgets);

}  // namespace zero::gpu_check
