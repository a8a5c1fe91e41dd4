#include "libzero/optim/rebuild_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::thrown;

std::vector<ParameterSpec> rows() {
  return {{.name = "a", .shape = {3}},
          {.name = "b", .shape = {2, 2}},
          {.name = "frozen", .shape = {5}, .trainable = false},
          {.name = "b too", .shape = {2, 2}, .alias_of = 1}};
}

RebuildPlan plan(const std::vector<ParameterSpec>& after, const RebuildOptions& options = {},
                 const std::vector<bool>& lost = std::vector<bool>(4, false)) {
  return plan_rebuild(rows(), lost, after, options);
}

auto is(const std::string& name, const std::string& why) {
  return AllOf(Field(&RebuiltParameter::name, name), Field(&RebuiltParameter::why, why));
}

TEST(RebuildPlan, TheSameRowsKeepEverything) {
  const RebuildPlan same = plan(rows());
  EXPECT_THAT(same.sources, ElementsAre(0, 1, -1, -1));
  EXPECT_THAT(same.report.kept, ElementsAre(is("a", ""), is("b", "")));
  EXPECT_THAT(same.report.fresh, IsEmpty());
  EXPECT_THAT(same.report.dropped, IsEmpty());
}

TEST(RebuildPlan, SaysWhatIsFreshAndWhatIsDropped) {
  std::vector<ParameterSpec> after = {{.name = "more", .shape = {1}},
                                      {.name = "frozen", .shape = {5}},
                                      {.name = "b", .shape = {2, 2}, .trainable = false}};
  const RebuildPlan changed = plan(after);
  EXPECT_THAT(changed.sources, ElementsAre(-1, -1, -1));
  EXPECT_THAT(changed.report.fresh, ElementsAre(is("more", "added"), is("frozen", "unfrozen")));
  EXPECT_THAT(changed.report.dropped, ElementsAre(is("a", "not in the model"), is("b", "frozen")));
}

TEST(RebuildPlan, AResizedParameterIsFreshAndNotDropped) {
  std::vector<ParameterSpec> after = rows();
  after[0].shape = {4};
  const RebuildPlan resized = plan(after);
  EXPECT_THAT(resized.sources, ElementsAre(-1, 1, -1, -1));
  EXPECT_THAT(resized.report.fresh, ElementsAre(is("a", "resized: float32 [3] -> float32 [4]")));
  EXPECT_THAT(resized.report.dropped, IsEmpty());
  EXPECT_THAT(plan(rows(), {}, {true, false, false, false}).sources, ElementsAre(-1, 1, -1, -1));
}

TEST(RebuildPlan, AnotherGroupOrPrecisionIsKeptAndSaid) {
  std::vector<ParameterSpec> after = rows();
  after[0].group = 2;
  after[0].dtype = DType::kBFloat16;
  EXPECT_THAT(plan(after).report.kept,
              ElementsAre(is("a", "float32 -> bfloat16, group 0 -> group 2"), is("b", "")));
}

TEST(RebuildPlan, TiedParametersAreFoundUnderEachName) {
  const std::vector<ParameterSpec> after = {{.name = "c", .shape = {2, 2}},
                                            {.name = "b too", .shape = {2, 2}, .alias_of = 0}};
  const RebuildPlan renamed = plan(after);
  EXPECT_THAT(renamed.sources, ElementsAre(1, -1));
  EXPECT_THAT(renamed.report.kept, ElementsAre(is("c", "")));
  EXPECT_THAT(renamed.report.dropped, ElementsAre(is("a", "not in the model")));
}

TEST(RebuildPlan, UntiedParametersEachTakeAll) {
  std::vector<ParameterSpec> after = rows();
  after[3].alias_of = -1;
  EXPECT_THAT(plan(after).sources, ElementsAre(0, 1, -1, 1));
}

TEST(RebuildPlan, TiesOfWhatWasTwoAreRefusedUnlessFresh) {
  const std::vector<ParameterSpec> after = {{.name = "a", .shape = {3}},
                                            {.name = "b", .shape = {3}, .alias_of = 0}};
  EXPECT_THAT(thrown<ContractError>([&] { plan(after); }), HasSubstr("a and b"));
  const RebuildReport report = plan(after, RebuildOptions().fresh({"b"})).report;
  EXPECT_THAT(report.fresh, ElementsAre(is("a", "asked for")));
  EXPECT_THAT(report.dropped, ElementsAre(is("b", "tied to another now")));
}

TEST(RebuildPlan, FreshMustNameATrainableParameter) {
  for (const char* name : {"nobody", "frozen"}) {
    EXPECT_THAT(thrown<ContractError>([&] { plan(rows(), RebuildOptions().fresh({name})); }),
                HasSubstr(name));
  }
}

}  // namespace
}  // namespace zero
