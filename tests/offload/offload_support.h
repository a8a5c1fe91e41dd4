#pragma once

/// Trainings whose state lies in a file, in blocks so small that every bucket has several.

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "tests/offload/disturbed_calls.h"
#include "tests/optim/checkpoint_support.h"

namespace zero::testing {

inline Offload in_small_blocks(const TemporaryFolder& folder) {
  return Offload::kDisk(folder.path()).size({.block_elements = 1024, .blocks = 3, .threads = 2});
}

inline JobOptions offloaded(const TemporaryFolder& folder, int stage = 2,
                            torch::Dtype dtype = torch::kFloat) {
  JobOptions options{.stage = stage, .dtype = dtype};
  options.configure = [&folder](Options& o) { o.offload(in_small_blocks(folder)); };
  return options;
}

}  // namespace zero::testing
