/// An optimizer whose model changes under it, against one that was saved, built anew and loaded.

#include "checkpoint/memory_store.h"
#include "libzero/optim/resume.h"
#include "tests/offload/offload_support.h"
#include "tests/optim/rebuild_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using PartsImage = std::map<std::string, std::string>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kChange = 3, kEnd = 6;

LoadOptions any_change() {
  return LoadOptions()
      .reshard_on_load(true)
      .allow_missing(true)
      .allow_extra(true)
      .allow_changed_training(true);
}

std::vector<Part> with_renamed(std::vector<Part> parts, const std::string& from,
                               const std::string& to) {
  for (Part& part : parts) {
    if (part.name == from) part.name = to;
  }
  return parts;
}

/// After the change and at the end: saved, built anew with other values, loaded. A load knows no
/// resized parameter: "c" has another first half of its name in the checkpoint.
std::pair<PartsImage, PartsImage> loaded_twin(torch::Dtype dtype) {
  std::pair<PartsImage, PartsImage> images;
  on_every_rank(1, [&](const Comm& comm) {
    const auto store = make_memory_store();
    PartsJob before(comm, Parts(dtype, with_renamed(parts_before(), "c", "cc")), parts_options(0));
    before.train(kChange);
    before.optimizer->save(*store);
    Parts changed(dtype, parts_after());
    const torch::NoGradGuard no_grad;
    for (const char* name : {"b", "m", "s", "t"}) changed.of(name).zero_();
    for (const char* name : {"a", "d"}) changed.of(name).copy_(before.parts.of(name));
    const at::AutoGradMode enable_grad(true);
    PartsJob after(comm, changed, parts_options(0));
    after.optimizer->load(*store, kChange, any_change());
    after.results = before.results;
    images.first = after.image();
    after.train(kEnd);
    images.second = after.image();
    before.optimizer->shutdown();
    after.optimizer->shutdown();
  });
  return images;
}

struct Setting {
  int stage;
  int world;
};

class RebuildTest : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, RebuildTest,
                         ::testing::Values(Setting{0, 1}, Setting{0, 2}, Setting{0, 4},
                                           Setting{1, 1}, Setting{1, 2}, Setting{1, 4},
                                           Setting{2, 1}, Setting{2, 2}, Setting{2, 4}),
                         [](const auto& test) {
                           return "Stage" + std::to_string(test.param.stage) + "World" +
                                  std::to_string(test.param.world);
                         });

void expect_equal_to_loaded(const Setting& setting, torch::Dtype dtype,
                            const std::function<void(Options&)>& configure = {}) {
  const auto [changed, ended] = loaded_twin(dtype);
  Options options = parts_options(setting.stage);
  if (configure) configure(options);
  on_every_rank(setting.world, [&, &changed = changed, &ended = ended](const Comm& comm) {
    PartsJob job(comm, Parts(dtype, parts_before()), options);
    job.train(kChange);
    job.parts.become(parts_after());
    if (comm->rank() > 0) {  // rank 0's values count
      const torch::NoGradGuard no_grad;
      job.parts.of("c").add_(1);
      job.parts.of("new").add_(1);
    }
    const RebuildReport report = job.rebuild();
    EXPECT_THAT(names_of(report.kept), ElementsAre("b", "m", "s", "z", "t"));
    EXPECT_THAT(names_of(report.fresh), ElementsAre("c", "d", "new"));
    EXPECT_THAT(names_of(report.dropped), ElementsAre("a", "gone"));
    EXPECT_EQ(difference_of(changed, job.image()), "");
    job.train(kEnd);
    EXPECT_EQ(difference_of(ended, job.image()), "");
    job.optimizer->shutdown();
  });
}

TEST_P(RebuildTest, IsSavingAndLoadingIntoANewOptimizerFloat32) {
  expect_equal_to_loaded(GetParam(), torch::kFloat);
}
TEST_P(RebuildTest, IsSavingAndLoadingIntoANewOptimizerBFloat16) {
  expect_equal_to_loaded(GetParam(), torch::kBFloat16);
}
TEST_P(RebuildTest, IsSavingAndLoadingIntoANewOptimizerFloat16) {
  expect_equal_to_loaded(GetParam(), torch::kHalf);
}
TEST_P(RebuildTest, IsTheSameWithStateOnADisk) {
  const TemporaryFolder folder;
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    expect_equal_to_loaded(GetParam(), dtype,
                           [&](Options& options) { options.offload(in_small_blocks(folder)); });
  }
}

/// Without clipping the parameters do not know of each other: what is fresh is as in an optimizer
/// that begins now, bias corrections included.
TEST_P(RebuildTest, AFreshParameterIsSteppedAsInANewOptimizer) {
  const int stage = GetParam().stage, world = GetParam().world;
  PartsImage expected;
  Options options = parts_options(stage).clip_norm(0).groups({});
  on_every_rank(world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kFloat, {{.name = "late", .shape = {5000}}}), options);
    for (auto& group : job.optimizer->param_groups()) group.options().set_lr(1e-2);
    for (std::int64_t step = 4; step < 7; ++step) job.backward(step), job.optimizer->step();
    const PartsImage image = job.image();
    if (comm->rank() == 0) expected = image;
    job.optimizer->shutdown();
  });
  on_every_rank(world, [&](const Comm& comm) {
    const Part old{.name = "old", .shape = {700}}, late{.name = "late", .shape = {5000}};
    PartsJob job(comm, Parts(torch::kFloat, {old}), options);
    for (std::int64_t step = 0; step < 4; ++step) job.backward(step), job.optimizer->step();
    job.parts.add(late);
    job.rebuild();
    for (std::int64_t step = 4; step < 7; ++step) job.backward(step), job.optimizer->step();
    const PartsImage image = job.image();
    for (const char* what : {"parameter", "exp_avg", "exp_avg_sq"}) {
      const std::string name = std::string(what) + " late";
      EXPECT_EQ(image.at(name), expected.at(name)) << name;
    }
    job.optimizer->shutdown();
  });
}

/// The counts of single parameters survive a checkpoint, and another world.
TEST_P(RebuildTest, WhatIsSavedAfterwardsResumesAtAnotherWorldWithTheSameBits) {
  const int stage = GetParam().stage, world = GetParam().world;
  const auto store = make_memory_store();
  PartsImage ended;
  on_every_rank(world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kBFloat16, parts_before()), parts_options(stage));
    job.train(kChange);
    job.parts.become(parts_after());
    job.rebuild();
    job.train(kChange + 1);
    job.optimizer->save(*store);
    job.results.clear();
    job.train(kEnd);
    const PartsImage image = job.image();
    if (comm->rank() == 0) ended = image;
    job.optimizer->shutdown();
  });
  EXPECT_EQ(store->open(kChange + 1)->common().applied_steps,
            (std::vector<std::int64_t>{0, 4, 1, 1, 1, 4, 4, 4, 4, 4}));
  on_every_rank(world == 2 ? 1 : 4 / world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kBFloat16, parts_after(), 0.5), parts_options(2 - stage));
    job.optimizer->load(*store, kChange + 1, LoadOptions().reshard_on_load(true));
    job.train(kEnd);
    EXPECT_EQ(difference_of(ended, job.image()), "");
    job.optimizer->shutdown();
  });
}

TEST_P(RebuildTest, FreezingAndUnfreezingLetsMomentsGoAndKeepsTheOthers) {
  const int stage = GetParam().stage, world = GetParam().world;
  on_every_rank(world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kBFloat16, parts_before()), parts_options(stage));
    job.train(2);
    const PartsImage before = job.image();
    const auto whole = job.optimizer->memory().total();
    job.parts.of("b").requires_grad_(false);
    EXPECT_THAT(names_of(job.rebuild().dropped), ElementsAre("b"));
    EXPECT_LT(job.optimizer->memory().total(), whole);
    job.parts.of("b").requires_grad_(true);
    const RebuildReport report = job.rebuild();
    ASSERT_THAT(names_of(report.fresh), ElementsAre("b"));
    EXPECT_EQ(report.fresh[0].why, "unfrozen");
    EXPECT_THAT(report.dropped, IsEmpty());
    PartsImage after = job.image();
    EXPECT_EQ(after.at("exp_avg b"), std::string(before.at("exp_avg b").size(), '\0'));
    for (const char* what : {"exp_avg b", "exp_avg_sq b", "master b"}) {
      EXPECT_NE(after.at(what), before.at(what)) << what;  // its low bits are gone with the master
      after[what] = before.at(what);
    }
    EXPECT_EQ(difference_of(before, after), "");
    job.optimizer->shutdown();
  });
}

/// As models of points do: the tensor stays and gets other memory.
TEST_P(RebuildTest, AParameterThatWasResizedInPlaceStartsFreshAndTrains) {
  const int stage = GetParam().stage, world = GetParam().world;
  on_every_rank(world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kFloat, parts_before()), parts_options(stage));
    job.train(2);
    const torch::Tensor loss_of_before = job.parts.loss(2, 0);  // holds autograd's nodes
    torch::Tensor c = job.parts.of("c");
    const torch::Tensor value = numbers({310, 10}, 3);
    c.set_data(value.clone());
    const RebuildReport report = job.rebuild();
    ASSERT_THAT(names_of(report.fresh), ElementsAre("c"));
    EXPECT_EQ(report.fresh[0].why, "resized: float32 [300, 10] -> float32 [310, 10]");
    job.train(4);
    EXPECT_FALSE(torch::equal(c.detach(), value));
    EXPECT_EQ(job.optimizer->gather("c", StateKind::kExpAvg).sizes(), c.sizes());
    job.optimizer->shutdown();
  });
}

/// A name is what state goes by: other tensors, in another order, of another precision.
TEST_P(RebuildTest, StateGoesByNameAndNotByTensor) {
  const int stage = GetParam().stage, world = GetParam().world;
  for (const auto& [from, to] :
       {std::pair(torch::kFloat, torch::kFloat), std::pair(torch::kFloat, torch::kBFloat16),
        std::pair(torch::kBFloat16, torch::kFloat)}) {
    on_every_rank(world, [&, from = from, to = to](const Comm& comm) {
      PartsJob job(comm, Parts(from, parts_before()), parts_options(stage));
      job.train(2);
      const PartsImage before = job.image();
      std::vector<Part> parts = parts_before();
      std::reverse(parts.begin(), parts.end() - 1);
      job.parts = Parts(to, parts, 0.5);
      EXPECT_EQ(job.rebuild().kept.size(), 8u);
      const PartsImage after = job.image();
      for (const auto& [name, bytes] : before) {
        if (name == "parameter d" || (from != to && name.starts_with("parameter"))) continue;
        EXPECT_EQ(after.at(name), bytes) << name;
      }
      EXPECT_TRUE(torch::equal(job.parts.of("b").detach(),
                               job.optimizer->gather("b", StateKind::kMaster).to(to)));
      job.train(3);
      job.optimizer->shutdown();
    });
  }
}

/// Tensors of one shape that change names: each value is read before it is written over.
TEST_P(RebuildTest, TensorsMayChangeNames) {
  const int stage = GetParam().stage, world = GetParam().world;
  on_every_rank(world, [&](const Comm& comm) {
    const std::vector<Part> parts = {{.name = "x", .shape = {9000}},
                                     {.name = "y", .shape = {9000}, .seed = 2}};
    PartsJob job(comm, Parts(torch::kFloat, parts), parts_options(stage));
    job.train(2);
    const PartsImage before = job.image();
    std::swap(job.parts.tensors[0].tensor, job.parts.tensors[1].tensor);
    job.rebuild();
    EXPECT_EQ(difference_of(before, job.image()), "");
    job.optimizer->shutdown();
  });
}

TEST_P(RebuildTest, NamedParametersStartFreshWithTheModelsValue) {
  const int stage = GetParam().stage, world = GetParam().world;
  on_every_rank(world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kBFloat16, parts_before()), parts_options(stage));
    job.train(2);
    const torch::Tensor value = numbers({20, 100}, 50).to(torch::kBFloat16);
    {
      const torch::NoGradGuard no_grad;
      job.parts.of("t").copy_(value);
    }
    const RebuildReport report = job.rebuild(RebuildOptions().fresh({"u"}));  // t's other name
    ASSERT_THAT(names_of(report.fresh), ElementsAre("t"));
    EXPECT_EQ(report.fresh[0].why, "asked for");
    EXPECT_TRUE(
        torch::equal(job.optimizer->gather("t", StateKind::kMaster), value.to(torch::kFloat)));
    EXPECT_EQ(job.optimizer->gather("u", StateKind::kExpAvg).abs().max().item<float>(), 0);
    EXPECT_GT(job.optimizer->gather("b", StateKind::kExpAvg).abs().max().item<float>(), 0);
    job.train(3);
    job.optimizer->shutdown();
  });
}

/// Whatever a rule keeps, and the average of the weights.
TEST_P(RebuildTest, KeepsAnotherRulesMomentsAndTheAverage) {
  const int stage = GetParam().stage, world = GetParam().world;
  on_every_rank(world, [&](const Comm& comm) {
    Parts parts(torch::kBFloat16, parts_before());
    Optimizer optimizer(parts.tensors, parts.buffers, SGDOptions(1e-2).momentum(0.9),
                        parts_options(stage).groups({}).ema(0.5), comm);
    const auto step = [&](std::int64_t number) {
      for (std::int64_t i = comm->rank(); i < kPartMicros; i += comm->size())
        optimizer.backward(parts.loss(number, i));
      optimizer.step();
    };
    step(0), step(1);
    std::vector<torch::Tensor> before, after;
    const std::vector<StateKind> kinds = {StateKind::kMaster, StateKind::kMomentumBuffer,
                                          StateKind::kEma};
    for (const char* name : {"b", "m", "t"})
      for (const StateKind kind : kinds) before.push_back(optimizer.gather(name, kind));
    parts.become(parts_after());
    optimizer.rebuild(parts.tensors, parts.buffers);
    for (const char* name : {"b", "m", "t"})
      for (const StateKind kind : kinds) after.push_back(optimizer.gather(name, kind));
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(torch::equal(before[i], after[i])) << i;
    EXPECT_FALSE(torch::equal(before[0], before[2]));  // an average that is no master
    for (const char* name : {"d", "new"}) {
      EXPECT_TRUE(torch::equal(optimizer.gather(name, StateKind::kEma),
                               optimizer.gather(name, StateKind::kMaster)));
      EXPECT_EQ(optimizer.gather(name, StateKind::kMomentumBuffer).abs().max().item<float>(), 0);
    }
    step(2);
    optimizer.shutdown();
  });
}

TEST(Rebuild, WithoutAnyChangeLeavesNoTrace) {
  for (const int world : {1, 2}) {
    expect_no_trace(world, [](Trainee& trainee) {
      const Layout* const before = &trainee.optimizer->layout();
      EXPECT_EQ(trainee.optimizer->rebuild(*trainee.model).kept.size(), 6u);
      EXPECT_NE(&trainee.optimizer->layout(), before);
    });
  }
}

TEST(Rebuild, SchedulersStopRequestsAndBuffersGoOn) {
  on_every_rank(2, [](const Comm& comm) {
    Trainee trainee(comm);
    torch::optim::StepLR schedule(*trainee.optimizer, 1, 0.5);
    trainee.window(0);
    schedule.step();  // the first only counts
    schedule.step();
    trainee.optimizer->request_stop();
    if (comm->rank() == 1) trainee.model->offset.fill_(7);
    trainee.model->register_parameter("more", numbers({30}, 9));
    trainee.optimizer->rebuild(*trainee.model);
    EXPECT_EQ(trainee.model->offset.item<float>(), 0.25f);
    ASSERT_EQ(trainee.optimizer->param_groups().size(), 1u);
    EXPECT_EQ(trainee.optimizer->param_groups()[0].params().size(), 7u);
    EXPECT_EQ(trainee.optimizer->param_groups()[0].options().get_lr(), 5e-3);
    schedule.step();
    EXPECT_EQ(trainee.optimizer->param_groups()[0].options().get_lr(), 2.5e-3);
    EXPECT_TRUE(trainee.window(1).stop_requested);
    trainee.optimizer->shutdown();
  });
}

TEST(Rebuild, TheReportSaysWhatAndWhy) {
  RebuildReport report;
  report.kept = {{"w", ""}, {"x", "group 0 -> group 1"}};
  report.fresh = {{"y", "added"}};
  EXPECT_EQ(to_text(report),
            "rebuilt: 2 parameters kept, 1 fresh, 0 dropped\n"
            "  kept x: group 0 -> group 1\n"
            "  fresh y: added\n");
}

}  // namespace
}  // namespace zero::testing
