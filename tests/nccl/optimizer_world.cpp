// Makes tests/optim/stage_equality_test.cpp run over the NCCL backend.

#include <chrono>
#include <memory>
#include <vector>

#include "libzero/collective/collective.h"
#include "tests/nccl/around.h"
#include "tests/nccl/world.h"
#include "tests/optim/ranks.h"

namespace zero::nccl_test {
namespace {

const bool kAround = Around::every_test(std::chrono::microseconds(20));

/// With staging buffers on the GPU, as far as the fake can tell: all memory counts as the GPU's.
const bool kOverNccl = [] {
  testing::make_world = [](int size, std::chrono::milliseconds timeout) {
    return make_light_world(size, timeout);
  };
  return true;
}();

}  // namespace
}  // namespace zero::nccl_test
