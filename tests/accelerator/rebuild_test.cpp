// Optimizer::rebuild() where the model lies on a device, wherever its state does: the bits of the
// CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/accelerator/rebuild_course.h"

namespace zero::accelerator_test {
namespace {

using ::testing::ElementsAre;

class RebuiltOnADevice : public StatePlaces {
 protected:
  void expect_course_of_the_cpu(const std::vector<Setting>& settings, const Change& change,
                                const DeviceOf& device_of = device) const {
    std::map<torch::Dtype, Course> expected;
    for (const Setting& setting : settings) {
      SCOPED_TRACE(text_of(setting));
      if (expected.count(setting.dtype) == 0)
        expected[setting.dtype] = run_on_the_cpu(setting.dtype, change);
      const Course& wanted = expected.at(setting.dtype);
      const Course actual =
          run(setting, device_of, place(testing::parts_options(setting.stage)), change);
      EXPECT_EQ(testing::difference_of(wanted.changed, actual.changed), "");
      EXPECT_EQ(testing::difference_of(wanted.ended, actual.ended), "");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, RebuiltOnADevice,
                         ::testing::Values(State::kHost, State::kDisk, State::kDevice),
                         name_of_state);

/// State on the device needs one on every rank.
class RebuiltOnSomeDevices : public RebuiltOnADevice {};
INSTANTIATE_TEST_SUITE_P(, RebuiltOnSomeDevices, ::testing::Values(State::kHost, State::kDisk),
                         name_of_state);

TEST_P(RebuiltOnSomeDevices, ARankWithoutADeviceGoesOnWithOneThatHasOne) {
  expect_course_of_the_cpu(
      {{torch::kFloat, 2, 2}, {torch::kBFloat16, 0, 2}}, change_everything,
      [](int rank) { return rank == 0 ? c10::Device(torch::kCPU) : device(rank); });
}

TEST_P(RebuiltOnADevice, AChangedModelGoesOnAsOnTheCpu) {
  expect_course_of_the_cpu(all_settings(), change_everything);
}

TEST_P(RebuiltOnADevice, AnUnchangedModelGoesOnAsIfNothingHadBeen) {
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Course plain = run_on_the_cpu(setting.dtype, change_nothing);
    const Course actual = run(setting, device, place(testing::parts_options(setting.stage)),
                              [](PartsJob& job) { EXPECT_EQ(job.rebuild().kept.size(), 8u); });
    EXPECT_EQ(testing::difference_of(plain.changed, actual.changed), "");
    EXPECT_EQ(testing::difference_of(plain.ended, actual.ended), "");
  }
}

/// A float32 parameter is its own master; of another one only the value in the model is new.
TEST_P(RebuiltOnADevice, WhatSomebodyHasWrittenOnTheDeviceCountsAsOnTheCpu) {
  expect_course_of_the_cpu(some_settings(), [](PartsJob& job) {
    {
      const torch::NoGradGuard no_grad;
      for (const char* name : {"b", "m", "s", "d"}) job.parts.of(name).mul_(0.5);
    }
    job.parts.become(parts_after());
    job.rebuild();
  });
}

TEST_P(RebuiltOnADevice, TensorsMayChangeNames) {
  expect_course_of_the_cpu(some_settings(), [](PartsJob& job) {
    job.parts.add({.name = "b2", .shape = {9000}, .seed = 50});
    job.rebuild();
    std::swap(job.parts.tensors[1].tensor, job.parts.tensors.back().tensor);  // of b and b2
    EXPECT_EQ(job.rebuild().kept.size(), 9u);
  });
}

TEST_P(RebuiltOnADevice, StateGoesByNameAndNotByTensor) {
  for (const auto& [from, to] :
       {std::pair(torch::kFloat, torch::kFloat), std::pair(torch::kFloat, torch::kBFloat16),
        std::pair(torch::kBFloat16, torch::kFloat)}) {
    expect_course_of_the_cpu({{from, 1, 2}}, [to = to](PartsJob& job) {
      const c10::Device here = job.parts.tensors[0].tensor.device();
      std::vector<testing::Part> parts = parts_before();
      std::reverse(parts.begin(), parts.end() - 1);
      job.parts = Parts(to, parts, 0.5, here);
      EXPECT_EQ(job.rebuild().kept.size(), 8u);
    });
  }
}

/// The tensors stay and get other memory: of another size, or of another type.
TEST_P(RebuiltOnADevice, ParametersMayBecomeOthersInPlace) {
  expect_course_of_the_cpu(some_settings(), [](PartsJob& job) {
    const auto set = [&](const char* name, const torch::Tensor& value) {
      torch::Tensor tensor = job.parts.of(name);
      tensor.set_data(value.to(tensor.device()));
    };
    const auto other =
        job.parts.of("b").scalar_type() == torch::kFloat ? torch::kBFloat16 : torch::kFloat;
    set("c", testing::numbers({310, 10}, 3).to(job.parts.of("c").scalar_type()));
    set("b", job.parts.of("b").detach().to(torch::kCPU).to(other));
    set("t", testing::numbers({20, 100}, 77).to(job.parts.of("t").scalar_type()));
    const RebuildReport report = job.rebuild();
    EXPECT_THAT(testing::names_of(report.fresh), ElementsAre("c"));
  });
}

TEST_P(RebuiltOnADevice, NamedParametersStartFreshWithTheModelsValue) {
  expect_course_of_the_cpu(some_settings(), [](PartsJob& job) {
    {
      const torch::NoGradGuard no_grad;
      job.parts.of("t").copy_(testing::numbers({20, 100}, 50));
    }
    const RebuildReport report = job.rebuild(RebuildOptions().fresh({"u"}));
    EXPECT_THAT(testing::names_of(report.fresh), ElementsAre("t"));
  });
}

/// There and back, several times.
TEST_P(RebuiltOnADevice, OneRebuildMayFollowAnother) {
  expect_course_of_the_cpu(some_settings(), [](PartsJob& job) {
    for (int i = 0; i < 3; ++i) {
      job.parts.of("b").requires_grad_(i % 2 == 1);
      job.parts.add({.name = "more" + std::to_string(i), .shape = {700 + i}, .seed = 60.0 + i});
      job.rebuild();
      job.backward(10 + i);
      job.optimizer->step();
    }
  });
}

TEST_P(RebuiltOnADevice, AveragesAndAnotherRulesMomentsAreKept) {
  std::vector<torch::Tensor> shown[2];
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    for (const bool on_device : {false, true}) {
      std::vector<torch::Tensor>& tensors = shown[on_device ? 1 : 0];
      tensors.clear();
      testing::on_ranks(setting.world, [&](const Comm& comm) {
        Parts parts(setting.dtype, parts_before(), 0,
                    on_device ? device(comm->rank()) : c10::Device(torch::kCPU));
        Optimizer optimizer(parts.tensors, parts.buffers, SGDOptions(1e-2).momentum(0.9),
                            place(testing::parts_options(setting.stage).groups({}).ema(0.5)), comm);
        const auto step = [&](std::int64_t number) {
          optimizer.backward(parts.loss(number, comm->rank()));
          optimizer.step();
        };
        step(0), step(1);
        parts.become(parts_after());
        optimizer.rebuild(parts.tensors, parts.buffers);
        step(2);
        std::vector<torch::Tensor> mine;
        for (const char* name : {"b", "m", "t", "c", "d", "new"}) {
          for (const StateKind kind :
               {StateKind::kMaster, StateKind::kMomentumBuffer, StateKind::kEma})
            mine.push_back(optimizer.gather(name, kind));
          const auto scope = optimizer.ema_scope();
          mine.push_back(parts.of(name).detach().to(torch::kCPU).clone());
        }
        optimizer.shutdown();
        if (comm->rank() == 0) tensors = mine;
      });
    }
    ASSERT_EQ(shown[0].size(), shown[1].size());
    for (std::size_t i = 0; i < shown[0].size(); ++i)
      EXPECT_TRUE(torch::equal(shown[0][i], shown[1][i])) << "tensor " << i;
  }
}

TEST_P(RebuiltOnADevice, TheGroupsHoldTheTensorsOfTheModel) {
  testing::on_ranks(1, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kFloat, parts_before(), 0, device(0)),
                 place(testing::parts_options(1)));
    job.parts.become(parts_after());
    job.rebuild();
    std::size_t count = 0;
    for (const auto& group : job.optimizer->param_groups()) {
      for (const torch::Tensor& tensor : group.params()) {
        ++count;
        EXPECT_TRUE(
            std::any_of(job.parts.tensors.begin(), job.parts.tensors.end(),
                        [&](const NamedTensor& item) { return item.tensor.is_same(tensor); }));
      }
    }
    EXPECT_EQ(count, 8u);
    job.optimizer->shutdown();
  });
}

}  // namespace
}  // namespace zero::accelerator_test
