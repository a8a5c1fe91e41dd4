#include "tests/conformance/collective_conformance.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/conformance/cases.h"

namespace zero::testing {
namespace {

class ConformanceTest : public ::testing::Test {
 public:
  ConformanceTest(std::function<void(const Setting&)> run, Setting setting)
      : run_(std::move(run)), setting_(std::move(setting)) {}

  void TestBody() override { run_(setting_); }

 private:
  const std::function<void(const Setting&)> run_;
  const Setting setting_;
};

void add_case(const Case& test_case, const Setting& setting) {
  const std::string suite = "Conformance/" + setting.backend.name;
  const std::string name = test_case.name + "World" + std::to_string(setting.world_size);
  ::testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [run = test_case.run, setting]() -> ::testing::Test* {
                            return new ConformanceTest(run, setting);
                          });
}

}  // namespace

bool register_collective_conformance(const CollectiveBackend& backend) {
  for (const auto& group :
       {reduce_scatter_cases(), all_reduce_cases(), copy_cases(), in_flight_cases(),
        mismatch_cases(), failure_cases(), split_cases(), leaving_cases()}) {
    for (const Case& test_case : group) {
      for (const int world_size : backend.world_sizes) {
        if (world_size >= test_case.smallest_world) add_case(test_case, {backend, world_size});
      }
    }
  }
  return true;
}

}  // namespace zero::testing
