/// What a load makes of two tables, without any tensor.

#include "libzero/optim/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tests/optim/load_plan_support.h"

namespace zero {
namespace {

using checkpoint::Blob;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Pair;
using ::testing::SizeIs;
using testing::some_options;

Restored how_is(const LoadPlan& plan, const std::string& item) {
  for (const LoadItem& line : plan.items) {
    if (line.item == item) return line.how;
  }
  ADD_FAILURE() << "no item " << item;
  return Restored::kRestored;
}

TEST(LoadPlan, CountsTheStepsOfEachParameter) {
  Pair pair;
  EXPECT_THAT(pair.plan().begun, Each(0));
  pair.reader.common_.applied_steps = {18, 17, 0, 0, 0, 0};
  LoadPlan plan = pair.plan();
  EXPECT_THAT(plan.differences, IsEmpty());
  EXPECT_EQ(plan.steps_applied, 18);
  EXPECT_THAT(plan.begun, ElementsAre(0, 1, 18, 0, 0, 0));
  pair.reader.common_.counters.erase("applied_steps");  // those that took part in most tell
  EXPECT_THAT(pair.plan().begun, ElementsAre(0, 1, 18, 0, 0, 0));
  pair.reader.common_.applied_steps = {};
  pair.reader.common_.counters["applied_steps"] = 18;
  pair.live.rows[3].trainable = true;  // moments of 0, and nothing counted
  plan = plan_load(pair.reader, pair.live, LoadOptions().allow_changed_training(true));
  EXPECT_THAT(plan.begun, ElementsAre(0, 0, 0, 18, 0, 0));
}

TEST(LoadPlan, OfEqualTablesRestoresEverything) {
  const LoadPlan plan = Pair().plan();
  EXPECT_THAT(plan.differences, IsEmpty());
  EXPECT_THAT(plan.sources, ElementsAre(0, 1, 2, 3, -1, 5));
  EXPECT_EQ(plan.steps_taken, 20);
  EXPECT_EQ(plan.steps_applied, 18);
  EXPECT_THAT(plan.groups, ElementsAre(some_options(0.5), some_options(0.25)));
  EXPECT_TRUE(plan.scaler.has_value());
  for (const LoadItem& item : plan.items) EXPECT_EQ(item.how, Restored::kRestored) << item.item;
}

/// One difference: what it is, and the option that allows it, if any.
struct Case {
  std::string name;
  std::function<void(Pair&)> change;
  std::string line;
  std::function<void(LoadOptions&)> allow = nullptr;
  std::string item = "";
  Restored how = Restored::kDefaulted;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const auto kMissing = [](LoadOptions& o) { o.allow_missing(true); };
const auto kExtra = [](LoadOptions& o) { o.allow_extra(true); };
const auto kRegroup = [](LoadOptions& o) { o.allow_regroup(true); };
const auto kConvert = [](LoadOptions& o) { o.allow_dtype_change(true); };
const auto kChanged = [](LoadOptions& o) { o.allow_changed_training(true); };
const auto kReshard = [](LoadOptions& o) { o.reshard_on_load(true); };

std::vector<Case> cases_of_rows() {
  return {
      {"Missing", [](Pair& p) { p.live.rows.push_back({.name = "new", .shape = {2}}); },
       "'new': not in the checkpoint (allow_missing): float32 [2]", kMissing, "parameter new",
       Restored::kDefaulted},
      {"MissingBuffer",
       [](Pair& p) {
         p.live.rows.push_back({.name = "new", .shape = {}, .group = -1, .trainable = false});
       },
       "'new': not in the checkpoint (allow_missing): float32 []", kMissing, "buffer new",
       Restored::kDefaulted},
      {"MissingAlias",
       [](Pair& p) {
         p.live.rows.push_back(
             {.name = "new", .shape = {4, 3}, .dtype = DType::kBFloat16, .alias_of = 0});
       },
       "'new': not in the checkpoint (allow_missing)", kMissing, "parameter new",
       Restored::kDefaulted},
      {"Extra", [](Pair& p) { p.live.rows.pop_back(); },
       "'mean': not in the model (allow_extra): int64 [2]", kExtra, "buffer mean",
       Restored::kDropped},
      {"ExtraAlias", [](Pair& p) { p.live.rows.erase(p.live.rows.begin() + 4); },
       "'output': not in the model (allow_extra)", kExtra, "parameter output", Restored::kDropped},
      {"Shape", [](Pair& p) { p.live.rows[1].shape = {9}; },
       "'weight': bfloat16 [3, 3] in the checkpoint, bfloat16 [9] in the model"},
      {"ShapeOfNothing",
       [](Pair& p) {
         p.live.rows[2].shape = {3, 0};
       },
       "'nothing': bfloat16 [0, 3] in the checkpoint, bfloat16 [3, 0] in the model"},
      {"DType", [](Pair& p) { p.live.rows[1].dtype = DType::kFloat32; },
       "'weight': bfloat16 in the checkpoint, float32 in the model (allow_dtype_change)", kConvert,
       "parameter weight", Restored::kConverted},
      {"DTypeOfFrozen", [](Pair& p) { p.live.rows[3].dtype = DType::kFloat16; },
       "'fixed': bfloat16 in the checkpoint, float16 in the model (allow_dtype_change)", kConvert,
       "parameter fixed", Restored::kConverted},
      {"DTypeOfIntegers", [](Pair& p) { p.live.rows[5].dtype = DType::kFloat32; },
       "'mean': int64 in the checkpoint, float32 in the model"},
      {"Thawed", [](Pair& p) { p.live.rows[3].trainable = true; },
       "'fixed': frozen in the checkpoint, trainable in the model (allow_changed_training)",
       kChanged, "parameter fixed", Restored::kConverted},
      {"Frozen", [](Pair& p) { p.live.rows[1].trainable = false; },
       "'weight': trainable in the checkpoint, frozen in the model (allow_changed_training)",
       kChanged, "parameter weight", Restored::kConverted},
      {"BufferNow", [](Pair& p) { p.live.rows[3].group = -1; },
       "'fixed': frozen in the checkpoint, a buffer in the model"},
      {"BufferThen", [](Pair& p) { p.live.rows[5].group = 0; },
       "'mean': a buffer in the checkpoint, frozen in the model"},
      {"Group", [](Pair& p) { p.live.rows[1].group = 0; },
       "'weight': group 1 in the checkpoint, group 0 in the model (allow_regroup)", kRegroup,
       "parameter weight", Restored::kConverted},
      {"NumberOfGroups", [](Pair& p) { p.live.groups.push_back(some_options(3)); },
       "groups: 2 in the checkpoint, 3 in the model (allow_regroup)", kRegroup, "options of groups",
       Restored::kKept},
      {"TiedNow",
       [](Pair& p) {
         p.saved(4).alias_of = -1;
         p.save_states();
       },
       "'output': tied to 'embedding' in the model, not in the checkpoint"},
      {"TiedThen", [](Pair& p) { p.live.rows[4].alias_of = -1; },
       "'output': tied to 'embedding' in the checkpoint, not in the model (allow_changed_training)",
       kChanged, "parameter output", Restored::kConverted},
      {"World", [](Pair& p) { p.live.world_size = 3; },
       "world size: 2 ranks in the checkpoint, 3 here (reshard_on_load)", kReshard, "masters",
       Restored::kResharded}};
}

std::vector<Case> cases_of_the_rest() {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  return {
      {"NoSteps", [](Pair& p) { p.reader.common_.counters.erase("applied_steps"); },
       "counter applied_steps: not in the checkpoint"},
      {"NegativeSteps", [](Pair& p) { p.reader.common_.counters["applied_steps"] = -1; },
       "counter applied_steps: -1 does not lie between 0 and the step, 20"},
      {"TooManySteps", [](Pair& p) { p.reader.common_.counters["applied_steps"] = kHuge; },
       "counter applied_steps: 9223372036854775807 does not lie"},
      {"MoreStepsThanThereWere",
       [](Pair& p) { p.reader.common_.applied_steps = {18, 19, 18, 0, 0, 0}; },
       "'weight': 19 steps were applied to it, of 18 that the optimizer made"},
      {"LessThanNoSteps", [](Pair& p) { p.reader.common_.applied_steps = {18, -1, 18, 0, 0, 0}; },
       "'weight': -1 steps were applied to it"},
      {"NoState",
       [](Pair& p) {
         p.reader.states_.erase({1, "exp_avg"});
       },
       "'weight': the checkpoint has no state 'exp_avg' of it"},
      {"NoValue",
       [](Pair& p) {
         p.reader.states_.erase({3, "value"});
       },
       "'fixed': the checkpoint has no state 'value' of it"},
      {"NarrowState",
       [](Pair& p) {
         p.reader.states_[{1, "exp_avg"}] = DType::kBFloat16;
       },
       "'weight': state 'exp_avg' is bfloat16 instead of float32 (allow_dtype_change)", kConvert,
       "exp_avg of weight", Restored::kConverted},
      {"WrongState",
       [](Pair& p) {
         p.reader.states_[{1, "exp_avg"}] = DType::kInt64;
       },
       "'weight': state 'exp_avg' is int64 instead of float32"},
      {"UnknownState",
       [](Pair& p) {
         p.reader.states_[{1, "ema"}] = DType::kFloat32;
       },
       "state 'ema': this optimizer has no such state (allow_extra)", kExtra, "state ema",
       Restored::kDropped},
      {"ScalerCountsTooMuch", [](Pair& p) { p.reader.common_.scaler.growth_tracker = kHuge; },
       "loss scale: more steps were counted than there were"},
      {"ScalerSkipsTooMuch", [](Pair& p) { p.reader.common_.scaler.consecutive_skips = 21; },
       "loss scale: more steps were counted than there were"},
      {"ScalerNegative", [](Pair& p) { p.reader.common_.scaler.consecutive_skips = -1; },
       "loss scale: "},
      {"ScalerOfNoUse", [](Pair& p) { p.reader.common_.scaler.scale = 2; }, "loss scale: "},
      {"NoOption",
       [](Pair& p) {
         for (auto& group : p.reader.common_.groups) group.erase("eps");
       },
       "option eps: not in the checkpoint (allow_missing)", kMissing, "option eps",
       Restored::kDefaulted},
      {"UnknownOption",
       [](Pair& p) {
         for (auto& group : p.reader.common_.groups) group["amsgrad"] = 1;
       },
       "option amsgrad: this optimizer has no such option of groups (allow_extra)", kExtra,
       "option amsgrad", Restored::kDropped}};
}

class LoadPlanOf : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Rows, LoadPlanOf, ::testing::ValuesIn(cases_of_rows()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(TheRest, LoadPlanOf, ::testing::ValuesIn(cases_of_the_rest()),
                         [](const auto& test) { return test.param.name; });

TEST_P(LoadPlanOf, OneDifferenceIsOneLineAndNamesItsOption) {
  Pair pair;
  GetParam().change(pair);
  EXPECT_THAT(pair.plan().differences, ElementsAre(HasSubstr(GetParam().line)));
}

TEST_P(LoadPlanOf, OnlyItsOwnOptionAllowsIt) {
  Pair pair;
  GetParam().change(pair);
  LoadOptions all;
  for (const auto& allow :
       {std::function(kMissing), std::function(kExtra), std::function(kRegroup),
        std::function(kConvert), std::function(kChanged), std::function(kReshard)})
    allow(all);
  LoadOptions own;
  if (GetParam().allow == nullptr) {
    EXPECT_THAT(pair.plan(all).differences, SizeIs(1));
    return;
  }
  GetParam().allow(own);
  EXPECT_THAT(pair.plan(own).differences, IsEmpty());
  EXPECT_EQ(how_is(pair.plan(own), GetParam().item), GetParam().how);
}

TEST(LoadPlan, SaysAllDifferencesAtOnce) {
  Pair pair;
  std::size_t expected = 0;
  for (const Case& c : cases_of_the_rest()) {
    // Two of one kind hide each other.
    if (c.name == "NegativeSteps" || c.name == "NoSteps" || c.name == "MoreStepsThanThereWere" ||
        c.name == "WrongState" || c.name == "NoState" || c.name.starts_with("Scaler"))
      continue;
    c.change(pair);
    ++expected;
  }
  pair.live.rows[1].shape = {9};
  pair.live.rows[2].name = "renamed";
  pair.live.world_size = 7;
  EXPECT_THAT(pair.plan().differences, SizeIs(expected + 4));
}

TEST(LoadPlan, OfWeightsAloneIgnoresWhatBelongsToTheTraining) {
  Pair pair;
  for (const Case& c : cases_of_the_rest()) {
    if (c.name != "NoValue") c.change(pair);
  }
  pair.live.rows[1].group = 0;
  pair.live.rows[3].trainable = true;
  pair.live.groups.push_back(some_options(3));
  pair.live.world_size = 7;
  pair.live.fresh_scaler.scale = 512;
  const LoadPlan plan = pair.plan(LoadOptions().weights_only(true));
  EXPECT_THAT(plan.differences, IsEmpty());
  EXPECT_FALSE(plan.moments);
  EXPECT_EQ(plan.steps_taken, 0);
  EXPECT_EQ(plan.steps_applied, 0);
  EXPECT_EQ(plan.scaler->scale, 512);
  EXPECT_THAT(plan.groups, Each(IsEmpty()));
  EXPECT_EQ(how_is(plan, "masters"), Restored::kResharded);
  EXPECT_EQ(how_is(plan, "exp_avg"), Restored::kDefaulted);
  EXPECT_EQ(how_is(plan, "state ema"), Restored::kDropped);
  pair.reader.states_.erase({1, "master"});
  pair.live.rows[0].shape = {9};
  EXPECT_THAT(pair.plan(LoadOptions().weights_only(true)).differences, SizeIs(2));
}

TEST(LoadPlan, FollowsNamesInAnyOrder) {
  Pair pair;
  auto& rows = pair.live.rows;
  std::reverse(rows.begin(), rows.end());  // mean, output, fixed, nothing, weight, embedding
  rows[1].alias_of = -1;                   // now the owner
  rows[5].alias_of = 1;
  const LoadPlan plan = pair.plan();
  EXPECT_THAT(plan.differences, IsEmpty());
  EXPECT_THAT(plan.sources, ElementsAre(5, 0, 3, 2, 1, -1));
}

TEST(LoadPlan, TakesATiedParameterByTheNameThatIsLeft) {
  Pair pair;
  pair.live.rows[0].name = "renamed";
  LoadOptions options;
  options.allow_missing(true).allow_extra(true);
  EXPECT_THAT(pair.plan(options).differences, IsEmpty());
  EXPECT_THAT(pair.plan(options).sources, ElementsAre(0, 1, 2, 3, -1, 5));
}

TEST(LoadPlan, KeepsTheOptionsThatTheCallerWants) {
  LoadOptions options;
  options.keep_options({"lr", "weight_decay"});
  const LoadPlan plan = Pair().plan(options);
  EXPECT_THAT(plan.differences, IsEmpty());
  EXPECT_FALSE(plan.groups[0].contains("lr"));
  EXPECT_EQ(plan.groups[0].at("beta2"), 0.99);
  EXPECT_EQ(how_is(plan, "option lr"), Restored::kKept);
  options.keep_options({"learning_rate"});
  EXPECT_THAT(Pair().plan(options).differences,
              ElementsAre("keep_options: no group has an option of this name: 'learning_rate'"));
}

TEST(LoadPlan, LeavesPresentOptionsWhereParametersMoved) {
  Pair pair;
  pair.live.rows[1].group = 0;
  LoadOptions options;
  options.allow_regroup(true);
  EXPECT_THAT(pair.plan(options).groups, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(Pair().plan(options).groups, ElementsAre(some_options(0.5), some_options(0.25)));
}

TEST(LoadPlan, RefusesWithoutRequiredBlobsAndCounters) {
  LoadOptions options;
  options.required({"schedule", "samples_seen", "sampler"});
  EXPECT_THAT(Pair().plan(options).differences, IsEmpty());
  options.required({"schedule", "epoch"});
  EXPECT_THAT(Pair().plan(options).differences,
              ElementsAre("'epoch': required, and the checkpoint has no counter or blob of this "
                          "name"));
}

TEST(LoadPlan, TellsNewRanksAndDroppedOnes) {
  Pair pair;
  LoadOptions options;
  options.reshard_on_load(true);
  pair.live.world_size = 1;
  EXPECT_EQ(how_is(pair.plan(options), "blobs of rank 1"), Restored::kDropped);
  pair.live.world_size = 3;
  pair.live.rank = 1;
  EXPECT_EQ(how_is(pair.plan(options), "rank blob sampler"), Restored::kRestored);
  pair.live.rank = 2;
  EXPECT_EQ(how_is(pair.plan(options), "rank blob sampler"), Restored::kDefaulted);
}

TEST(LoadPlan, TakesTheScalerOnlyWhereBothScale) {
  Pair pair;
  for (ParameterSpec* row :
       {&pair.saved(0), &pair.saved(1), &pair.live.rows[0], &pair.live.rows[1]})
    row->dtype = DType::kFloat16;
  pair.reader.common_.parameters[4].dtype = pair.live.rows[4].dtype = DType::kFloat16;
  pair.reader.common_.scaler = {.scale = 256, .growth_tracker = 5, .hysteresis_left = 1};
  pair.live.scaler = LossScaler();
  EXPECT_EQ(pair.plan().scaler, pair.reader.common_.scaler);
  pair.live.scaler = LossScaler({.min_scale = 512});
  EXPECT_THAT(pair.plan().differences, ElementsAre(HasSubstr("lower min_scale")));
  pair.live.scaler = LossScaler::disabled();
  EXPECT_FALSE(pair.plan().scaler.has_value());
  EXPECT_EQ(how_is(pair.plan(), "loss scale"), Restored::kDropped);
}

TEST(LoadPlan, OfFloat16TakesNoScalerFromTrainingThatHadNone) {
  Pair pair;
  pair.live.scaler = LossScaler();
  EXPECT_FALSE(pair.plan().scaler.has_value());
  EXPECT_EQ(how_is(pair.plan(), "loss scale"), Restored::kDefaulted);
}

}  // namespace
}  // namespace zero
