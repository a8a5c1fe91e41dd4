#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Lines {
  std::vector<std::string> info, warnings;
  LogSink sink() {
    return [this](LogLevel level, std::string_view line) {
      (level == LogLevel::kInfo ? info : warnings).emplace_back(line);
    };
  }
};

TEST(Log, TheSinkHearsOfLayoutSkippedStepsAndLeavingWithoutShutdownAndOfNothingElse) {
  Lines lines;
  const auto weight = torch::ones({3}, torch::requires_grad());
  {
    Optimizer optimizer({{"weight", weight}}, {}, AdamWOptions(0.1), Options().log(lines.sink()),
                        make_self());
    optimizer.backward(weight.sum());
    optimizer.step();
    EXPECT_TRUE(lines.warnings.empty());
    optimizer.backward(weight.sum() * std::numeric_limits<float>::infinity());
    optimizer.step();
    EXPECT_THAT(lines.warnings, ElementsAre(AllOf(HasSubstr("skipped"), HasSubstr("weight"),
                                                  HasSubstr("loss scale 1 -> 1"))));
  }
  EXPECT_THAT(lines.info, ElementsAre(AllOf(HasSubstr("stage 2 on 1 ranks (self)"),
                                            HasSubstr("1 parameters in 1 buckets"))));
  ASSERT_EQ(lines.warnings.size(), 2u);
  EXPECT_THAT(lines.warnings[1], HasSubstr("without shutdown()"));
}

TEST(Log, AnOrderlyRunSaysNothingButHowItWasSetUp) {
  Lines lines;
  const auto weight = torch::ones({3}, torch::requires_grad());
  Optimizer optimizer({{"weight", weight}}, {}, AdamWOptions(0.1), Options().log(lines.sink()),
                      make_self());
  optimizer.backward(weight.sum());
  optimizer.step();
  optimizer.shutdown();
  EXPECT_EQ(lines.info.size(), 1u);
  EXPECT_TRUE(lines.warnings.empty());
}

TEST(Log, ASinkThatThrowsInTheDestructorEndsNothing) {
  const auto weight = torch::ones({3}, torch::requires_grad());
  const LogSink thrower = [](LogLevel level, std::string_view) {
    if (level == LogLevel::kWarning) throw std::runtime_error("a sink that throws");
  };
  EXPECT_NO_THROW(
      Optimizer({{"weight", weight}}, {}, AdamWOptions(0.1), Options().log(thrower), make_self()));
}

}  // namespace
}  // namespace zero
