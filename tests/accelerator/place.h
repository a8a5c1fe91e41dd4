#pragma once

/// Where an optimizer of a model on the fake device keeps masters and moments.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "libzero/optim/options.h"
#include "tests/nccl/fake/apis.h"

namespace zero::accelerator_test {

enum class Place { kHost, kDevice };

inline Options in_place(Options options, Place place) {
  if (place == Place::kHost) return options.offload(Offload::kHost);
  return options.device_kernels(std::make_shared<cuda::KernelApi>(nccl_test::fake_kernels()));
}

/// For suites of both.
inline std::string name_of(const ::testing::TestParamInfo<Place>& instance) {
  return instance.param == Place::kHost ? "StateOnTheHost" : "StateOnTheDevice";
}
inline const auto kPlaces = ::testing::Values(Place::kHost, Place::kDevice);

}  // namespace zero::accelerator_test
