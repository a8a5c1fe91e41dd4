/// One rule in one optimizer, and its own checkpoints alone.

#include <gmock/gmock.h>

#include "tests/offload/offload_support.h"
#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<checkpoint::Store> saved_with(const RuleCase& rule) {
  auto store = make_memory_store();
  on_jobs(2, {.rule = rule}, [&](Job& job) {
    job.train(2);
    job.optimizer->save(*store);
  });
  return store;
}

TEST(RuleMisuse, ACheckpointOfAnotherRuleIsRefusedNamingBothAndNothingChanges) {
  for (const bool is_from_adamw : {true, false}) {
    const RuleCase from = is_from_adamw ? RuleCase{} : momentum_case();
    const RuleCase to = is_from_adamw ? momentum_case() : RuleCase{};
    const auto store = saved_with(from);
    on_jobs(2, {.seed = 3, .rule = to}, [&](Job& job) {
      const Image before = job.image();
      const std::string error = thrown<ContractError>([&] { job.optimizer->load(*store, 2); });
      EXPECT_THAT(error, HasSubstr("update rule: " + from.name.substr(0, 3)));
      EXPECT_THAT(error, AllOf(HasSubstr("AdamW"), HasSubstr("SGD"), HasSubstr("1 difference\n")));
      EXPECT_EQ(first_difference(before, job.image()), "");
    });
  }
}

TEST(RuleMisuse, WeightsOnlyTakesMastersOfAnyRule) {
  const auto store = saved_with(momentum_case());
  on_jobs(2, {.seed = 3}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(*store, 2, LoadOptions().weights_only(true));
    EXPECT_THAT(to_text(report), HasSubstr("state momentum_buffer"));
    EXPECT_EQ(job.image().at("master embedding"),
              twin_image(torch::kFloat, 2, momentum_case()).at("master embedding"));
    job.train(1);
  });
}

/// The trainer is not shown it, and cannot take it.
TEST(RuleMisuse, TheRulesRecordIsNoBlobOfTheTrainers) {
  const auto store = saved_with(momentum_case());
  EXPECT_TRUE(store->open(2)->common().blobs.contains("optimizer.rule"));
  EXPECT_TRUE(saved_with({})->open(2)->common().blobs.empty()) << "AdamW's are as they always were";
  on_jobs(2, {.rule = momentum_case()}, [&](Job& job) {
    const LoadReport report = job.optimizer->load(*store, 2);
    EXPECT_TRUE(report.trainer.blobs.empty());
    EXPECT_THAT(to_text(report), Not(HasSubstr("optimizer.rule")));
  });
}

TEST(RuleMisuse, ABufferThatOneSideLacksIsRefused) {
  const auto with = saved_with(momentum_case()), without = saved_with(sgd_case());
  on_jobs(2, {.rule = sgd_case()}, [&](Job& job) {
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*with, 2); }),
                AllOf(HasSubstr("state 'momentum_buffer': this optimizer has no such state"),
                      HasSubstr("momentum must stay 0")));
  });
  on_jobs(2, {.rule = momentum_case()}, [&](Job& job) {
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*without, 2); }),
                HasSubstr("the checkpoint has no state 'momentum_buffer' of it"));
  });
}

TEST(RuleMisuse, GroupsOfAnotherRuleAreRefusedOnEveryRank) {
  const auto errors = errors_on_ranks(2, [](const Comm& comm) {
    Tiny model;
    Options options = tiny_options(2);
    options.groups({{[](const auto&, const auto&) { return true; }, SGDOptions(0.1)}});
    Optimizer optimizer(*model, AdamWOptions(0.1), options, comm);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("AdamW"), HasSubstr("group 1")));
}

TEST(RuleMisuse, RanksWithDifferentRulesAreADifference) {
  const auto errors = errors_on_ranks(2, [](const Comm& comm) {
    Tiny model;
    const RuleOptions rule =
        comm->rank() == 0 ? RuleOptions(AdamWOptions(0.1)) : RuleOptions(SGDOptions(0.1));
    Optimizer optimizer(*model, rule, tiny_options(2), comm);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("AdamW"), HasSubstr("SGD")));
}

std::string refused(const SGDOptions& sgd) {
  return errors_on_ranks(1,
                         [&](const Comm& comm) {
                           Tiny model;
                           Optimizer optimizer(*model, sgd, tiny_options(2), comm);
                         })
      .front();
}

TEST(RuleMisuse, OptionsOfSGDOutOfRangeAreNamed) {
  EXPECT_THAT(refused(SGDOptions(-1)), HasSubstr("group 0: lr must be finite and at least 0: -1"));
  EXPECT_THAT(refused(SGDOptions(1).weight_decay(-2)), HasSubstr("weight_decay"));
  EXPECT_THAT(refused(SGDOptions(1).momentum(1)), HasSubstr("momentum must lie in [0, 1)"));
  EXPECT_THAT(refused(SGDOptions(1).nesterov(true)), HasSubstr("nesterov needs a momentum"));
  EXPECT_EQ(refused(SGDOptions(1).momentum(0.5).nesterov(true)), "");
}

TEST(RuleMisuse, MomentumCannotComeToAnOptimizerThatKeepsNoBuffer) {
  on_jobs(2, {.rule = sgd_case()}, [](Job& job) {
    auto& options = static_cast<SGDOptions&>(job.optimizer->param_groups()[1].options());
    options.momentum(0.5);
    job.optimizer->backward(job.model->loss(toy_batch(0, 0)));
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->step(); }),
                AllOf(HasSubstr("group 1"), HasSubstr("momentum must stay 0")));
    options.momentum(0);
    job.train(1);
  });
}

TEST(RuleMisuse, StateThatTheRuleDoesNotKeepIsRefusedByName) {
  on_jobs(1, {.rule = momentum_case()}, [](Job& job) {
    const auto error =
        thrown<ContractError>([&] { job.optimizer->gather("first.bias", StateKind::kExpAvg); });
    EXPECT_THAT(error, AllOf(HasSubstr("exp_avg"), HasSubstr("master, momentum_buffer")));
    thrown<ContractError>(
        [&] { job.optimizer->for_each_shard(StateKind::kExpAvgSq, [](const ShardView&) {}); });
  });
}

TEST(RuleMisuse, WhereNothingIsKeptOffloadHasNothingToDo) {
  const TemporaryFolder folder;
  JobOptions options = offloaded(folder);
  options.rule = sgd_case();
  on_jobs(2, options, [](Job& job) {
    EXPECT_EQ(job.optimizer->memory().offloaded, 0);
    job.train(2);
    EXPECT_EQ(first_difference(twin_image(torch::kFloat, 2, sgd_case()), job.image()), "");
  });
}

}  // namespace
}  // namespace zero::testing
