#pragma once

/// What every Store must do. A Store's test instantiates the suite with a maker of empty stores.

#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/store.h"

namespace zero::checkpoint {

struct StoreMaker {
  std::string name;
  std::function<std::unique_ptr<Store>()> make;
};

class StoreConformance : public ::testing::TestWithParam<StoreMaker> {
 protected:
  std::unique_ptr<Store> store_ = GetParam().make();
};

}  // namespace zero::checkpoint
