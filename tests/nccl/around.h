#pragma once

/// What holds around every test of a program: the weather is reset before it, and afterwards no
/// rule of CUDA or NCCL is broken.

#include <gtest/gtest.h>

#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {

class Around : public ::testing::EmptyTestEventListener {
 public:
  /// To initialise a constant with.
  static bool every_test(std::chrono::microseconds most_delay) {
    ::testing::UnitTest::GetInstance()->listeners().Append(new Around(most_delay));
    return true;
  }

 private:
  explicit Around(std::chrono::microseconds most_delay) : most_delay_(most_delay) {}

  void OnTestStart(const ::testing::TestInfo&) override {
    Weather::now().reset();
    Weather::now().delay(7, most_delay_);
  }
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& rule : Weather::now().broken_rules()) ADD_FAILURE() << rule;
  }

  const std::chrono::microseconds most_delay_;
};

}  // namespace zero::nccl_test
