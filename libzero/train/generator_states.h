#pragma once

/// Where LibTorch's default generators stand.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace zero {

/// The default generators that a program draws from: the CPU's first and, where this LibTorch finds
/// CUDA, that of the current device.
std::vector<at::Generator> default_generators();

/// A snapshot of default_generators(). Thread-safe as the generators are: one after the other, each
/// under its lock.
class GeneratorStates {
 public:
  /// Where the generators stand. Throws what LibTorch throws.
  static GeneratorStates now();

  /// Puts the generators of the snapshot back to where they were.
  void restore();

 private:
  struct Saved {
    at::Generator generator;
    at::Tensor state;
  };
  std::vector<Saved> saved_;
};

}  // namespace zero
