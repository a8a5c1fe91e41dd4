// Makes the tests of training on a device run over the NCCL backend: payload never leaves the
// devices' memory, words travel in the host's.

#include <gtest/gtest.h>

#include "tests/nccl/fake/weather.h"
#include "tests/nccl/world.h"
#include "tests/optim/ranks.h"

namespace zero::accelerator_test {
namespace {

const bool kOverNccl = [] {
  testing::make_world = [](int size, std::chrono::milliseconds timeout) {
    auto& weather = nccl_test::Weather::now();
    for (const std::string& rule : weather.broken_rules()) ADD_FAILURE() << rule;
    weather.reset(/*all_is_device_memory=*/false);
    weather.delay(7, std::chrono::microseconds(20));
    return nccl_test::make_light_world(size, timeout);
  };
  return true;
}();

}  // namespace
}  // namespace zero::accelerator_test
