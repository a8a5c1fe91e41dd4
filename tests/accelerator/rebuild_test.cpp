// Optimizer::rebuild() where the model lies on a device, wherever its state does: the bits of the
// CPU, and no trace of what was refused.

#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libzero/base/error.h"
#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/nccl/fake/weather.h"
#include "tests/offload/disturbed_calls.h"
#include "tests/optim/ranks.h"
#include "tests/optim/rebuild_support.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Parts;
using testing::parts_after;
using testing::parts_before;
using testing::PartsJob;
using Comm = std::shared_ptr<Collective>;
using Image = std::map<std::string, std::string>;

constexpr std::int64_t kChange = 2, kEnd = 4;

enum class State { kHost, kDisk, kDevice };

/// Where a rank's model lies.
using DeviceOf = std::function<c10::Device(int rank)>;
const DeviceOf kOnTheCpu = [](int) { return c10::Device(torch::kCPU); };
const DeviceOf kOnDevices = [](int rank) { return device(rank); };
const DeviceOf kOnDevicesButTheFirst = [](int rank) {
  return rank == 0 ? c10::Device(torch::kCPU) : device(rank);
};

struct Setting {
  torch::Dtype dtype = torch::kFloat;
  int stage = 0;
  int world = 1;
};

std::string text_of(const Setting& setting) {
  return std::string(c10::toString(setting.dtype)) + ", stage " + std::to_string(setting.stage) +
         ", world " + std::to_string(setting.world);
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const int stage : {0, 1, 2}) {
      for (const int world : {1, 2}) settings.push_back({dtype, stage, world});
    }
  }
  return settings;
}

std::vector<Setting> some_settings() {
  return {{torch::kFloat, 0, 1}, {torch::kFloat, 2, 2}, {torch::kBFloat16, 1, 2}};
}

/// Happens to the job after kChange steps, on every rank.
using Change = std::function<void(PartsJob&)>;

/// Right after the change, and at the end.
struct Course {
  Image changed, ended;
};

Course run(const Setting& setting, const DeviceOf& device_of, const Options& options,
           const Change& change) {
  Course course;
  testing::on_ranks(setting.world, [&](const Comm& comm) {
    const c10::Device here = device_of(comm->rank());
    PartsJob job(comm, Parts(setting.dtype, parts_before(), 0, here), options);
    job.train(kChange);
    change(job);
    Course mine;
    mine.changed = job.image();
    job.train(kEnd);
    mine.ended = job.image();
    job.optimizer->shutdown();
    if (comm->rank() == setting.world - 1) course = mine;
  });
  return course;
}

class RebuiltOnADevice : public ::testing::TestWithParam<State> {
 protected:
  Options place(Options options) const {
    if (GetParam() == State::kDisk) return options.offload(small_blocks());
    return in_place(options, GetParam() == State::kHost ? Place::kHost : Place::kDevice);
  }
  Offload small_blocks() const {
    return Offload::kDisk(folder_.path()).size({.block_elements = 1024, .blocks = 3, .threads = 2});
  }

  void expect_course_of_the_cpu(
      const std::vector<Setting>& settings, const Change& change,
      const DeviceOf& device_of = kOnDevices,
      const std::function<void(Options&)>& configure = [](Options&) {}) const {
    std::map<torch::Dtype, Course> expected;
    const auto options_of = [&](int stage) {
      Options options = testing::parts_options(stage);
      configure(options);
      return options;
    };
    for (const Setting& setting : settings) {
      SCOPED_TRACE(text_of(setting));
      if (expected.count(setting.dtype) == 0)
        expected[setting.dtype] = run({setting.dtype, 0, 1}, kOnTheCpu, options_of(0), change);
      const Course actual = run(setting, device_of, place(options_of(setting.stage)), change);
      const Course& wanted = expected.at(setting.dtype);
      EXPECT_EQ(testing::difference_of(wanted.changed, actual.changed), "");
      EXPECT_EQ(testing::difference_of(wanted.ended, actual.ended), "");
    }
  }

 private:
  testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(, RebuiltOnADevice,
                         ::testing::Values(State::kHost, State::kDisk, State::kDevice),
                         [](const auto& instance) {
                           switch (instance.param) {
                             case State::kHost:
                               return "StateOnTheHost";
                             case State::kDisk:
                               return "StateOnADisk";
                             case State::kDevice:
                               return "StateOnTheDevice";
                           }
                           return "";
                         });

/// Parameters are frozen, thawed, added, resized and let go; ranks have other values of new ones.
void change_everything(PartsJob& job) {
  job.parts.become(parts_after());
  if (job.comm->rank() > 0) {  // rank 0's values count
    const torch::NoGradGuard no_grad;
    for (const char* name : {"c", "new", "d"}) job.parts.of(name).add_(1);
  }
  const RebuildReport report = job.rebuild();
  EXPECT_THAT(testing::names_of(report.kept), ElementsAre("b", "m", "s", "z", "t"));
  EXPECT_THAT(testing::names_of(report.fresh), ElementsAre("c", "d", "new"));
  EXPECT_THAT(testing::names_of(report.dropped), ElementsAre("a", "gone"));
}

TEST_P(RebuiltOnADevice, AChangedModelGoesOnAsOnTheCpu) {
  expect_course_of_the_cpu(all_settings(), change_everything);
}

TEST_P(RebuiltOnADevice, ARankWithoutADeviceGoesOnWithOthersThatHaveOne) {
  if (GetParam() == State::kDevice) GTEST_SKIP() << "state on the device needs one on every rank";
  expect_course_of_the_cpu({{torch::kFloat, 2, 2}, {torch::kBFloat16, 0, 2}}, change_everything,
                           kOnDevicesButTheFirst);
}

TEST_P(RebuiltOnADevice, AnUnchangedModelGoesOnAsIfNothingHadBeen) {
  std::map<torch::Dtype, Course> expected;
  for (const Setting& setting : all_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Options options = place(testing::parts_options(setting.stage));
    const Course plain =
        run(setting, kOnTheCpu, testing::parts_options(setting.stage), [](PartsJob&) {});
    const Course actual = run(setting, kOnDevices, options,
                              [](PartsJob& job) { EXPECT_EQ(job.rebuild().kept.size(), 8u); });
    EXPECT_EQ(testing::difference_of(plain.changed, actual.changed), "");
    EXPECT_EQ(testing::difference_of(plain.ended, actual.ended), "");
  }
}

/// A float32 parameter is its own master; of another one only the value in the model is new.
TEST_P(RebuiltOnADevice, WhatSomebodyHasWrittenOnTheDeviceCountsAsOnTheCpu) {
  expect_course_of_the_cpu(all_settings(), [](PartsJob& job) {
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
    std::swap(job.parts.tensors[4].tensor, job.parts.tensors[9].tensor);  // a tied pair
    NamedTensor& b = job.parts.tensors[1];
    NamedTensor& twin = job.parts.tensors[3];
    ASSERT_EQ(b.name, "b");
    ASSERT_EQ(twin.name, "d");
    job.parts.add({.name = "b2", .shape = {9000}, .seed = 50});
    job.rebuild();
    std::swap(b.tensor, job.parts.tensors.back().tensor);
    EXPECT_EQ(job.rebuild().fresh.size(), 0u);
  });
}

TEST_P(RebuiltOnADevice, StateGoesByNameAndNotByTensor) {
  for (const auto& [from, to] :
       {std::pair(torch::kFloat, torch::kFloat), std::pair(torch::kFloat, torch::kBFloat16),
        std::pair(torch::kBFloat16, torch::kFloat)}) {
    expect_course_of_the_cpu({{from, 1, 2}, {from, 0, 1}}, [to = to](PartsJob& job) {
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

/// There and back, several times: of the images before only those of before that stay are shared.
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

// What is refused.

struct Refused {
  std::vector<std::string> errors;  // by rank; empty where nothing was refused
  Image ended;
};

/// rebuild() for a changed model, while something is broken on the last rank. Where it throws, the
/// model is as it was again, and is rebuilt so.
Refused run_refused(const Setting& setting, const std::function<Options(int rank)>& options_of,
                    const std::function<void(bool)>& set_broken) {
  Refused result{std::vector<std::string>(static_cast<std::size_t>(setting.world)), {}};
  testing::on_ranks(setting.world, [&](const Comm& comm) {
    const c10::DeviceGuard here(device(comm->rank()));
    std::string& error = result.errors[static_cast<std::size_t>(comm->rank())];
    PartsJob job(comm, Parts(setting.dtype, parts_before(), 0, device(comm->rank())),
                 options_of(comm->rank()));
    job.train(kChange);
    const std::vector<NamedTensor> before = job.parts.tensors;
    job.parts.become(parts_after());
    const bool is_last = comm->rank() == setting.world - 1;
    if (is_last) set_broken(true);
    try {
      job.rebuild();
    } catch (const Error& refused) {
      error = refused.what();
    }
    if (is_last) set_broken(false);
    comm->barrier("nothing is broken any more")->wait();
    if (!error.empty()) {
      job.parts.tensors = before;
      job.parts.become(parts_before());
      job.train(kChange + 1);
      EXPECT_EQ(job.rebuild().kept.size(), 8u);
    }
    job.train(kEnd);
    const Image image = job.image();
    job.optimizer->shutdown();
    if (is_last) result.ended = image;
  });
  return result;
}

Image ended_on_the_cpu(torch::Dtype dtype, const Change& change) {
  return run({dtype, 0, 1}, kOnTheCpu, testing::parts_options(0), change).ended;
}

/// Each piece of pinned memory that rebuild() takes is refused in turn.
TEST_P(RebuiltOnADevice, WithoutRoomOnOneRankNothingIsChangedOnAnyRank) {
  for (const Setting& setting : {Setting{torch::kFloat, 2, 2}, Setting{torch::kBFloat16, 1, 2}}) {
    SCOPED_TRACE(text_of(setting));
    const Image unchanged = ended_on_the_cpu(setting.dtype, [](PartsJob&) {});
    const Image changed = ended_on_the_cpu(setting.dtype, change_everything);
    std::string texts;
    int failing = 0;
    for (bool is_through = false; !is_through && failing < 100; ++failing) {
      const auto pieces = std::make_shared<std::atomic<int>>(0);
      const auto broken = std::make_shared<std::atomic<bool>>(false);
      nccl_test::Weather::now().on_call([=](const std::string& function, int index) {
        const bool counts = *broken && function == "cudaHostAlloc" && index == setting.world - 1;
        return counts && (*pieces)++ == failing ? 2 : 0;
      });
      const Refused actual = run_refused(
          setting, [&](int) { return place(testing::parts_options(setting.stage)); },
          [&](bool is_broken) { *broken = is_broken; });
      nccl_test::Weather::now().on_call(nullptr);
      is_through = actual.errors[0].empty();
      EXPECT_EQ(testing::difference_of(is_through ? changed : unchanged, actual.ended), "");
      EXPECT_EQ(actual.errors[0], actual.errors[1]);
      if (is_through) break;
      EXPECT_THAT(actual.errors[0],
                  HasSubstr("rank 1: device: there is no room for pinned host memory;"));
      texts += actual.errors[0];
    }
    if (GetParam() == State::kDevice) {
      EXPECT_GE(failing, 4);
      continue;
    }
    EXPECT_EQ(failing, 5) << "images of what is new and two places for gradients: " << texts;
    for (const char* what : {"image of parameter c:", "image of parameter d:",
                             "image of parameter new:", "gradients on their way to the host:"})
      EXPECT_THAT(texts, HasSubstr(what));
  }
}

TEST_P(RebuiltOnADevice, ADiskThatFailsOnOneRankChangesNothingOnAnyRank) {
  if (GetParam() != State::kDisk) GTEST_SKIP() << "there is no disk";
  for (const bool is_full : {true, false}) {
    for (const Setting& setting : {Setting{torch::kFloat, 2, 2}, Setting{torch::kBFloat16, 0, 2},
                                   Setting{torch::kBFloat16, 1, 1}}) {
      SCOPED_TRACE(text_of(setting) + (is_full ? ", full" : ", cannot be read"));
      std::atomic<bool> broken = false;
      const auto calls = std::make_shared<testing::DisturbedCalls>();
      if (is_full) {
        calls->on_allocate = [&] { return broken ? ENOSPC : 0; };
      } else {
        calls->on_pread = [&](int, void*, std::size_t, off_t) -> std::optional<ssize_t> {
          if (broken) return testing::DisturbedCalls::fail(EIO);
          return std::nullopt;
        };
      }
      const Refused actual = run_refused(
          setting,
          [&](int rank) {
            const Offload offload = small_blocks();
            const bool is_last = rank == setting.world - 1;
            return testing::parts_options(setting.stage)
                .offload(is_last ? Offload(offload).calls(calls) : offload);
          },
          [&](bool is_broken) { broken = is_broken; });
      for (const std::string& error : actual.errors)
        EXPECT_THAT(error, AllOf(HasSubstr(setting.world > 1 ? "rank 1: " : ""),
                                 HasSubstr(is_full ? "No space left" : "Input/output error")));
      EXPECT_EQ(
          testing::difference_of(ended_on_the_cpu(setting.dtype, [](PartsJob&) {}), actual.ended),
          "");
    }
  }
}

TEST_P(RebuiltOnADevice, InTheMiddleOfAWindowIsRefusedAndTheWindowGoesOn) {
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Image expected = ended_on_the_cpu(setting.dtype, [](PartsJob&) {});
    const Course actual =
        run(setting, kOnDevices, place(testing::parts_options(setting.stage)), [](PartsJob& job) {
          job.backward(kChange);
          EXPECT_THAT(testing::thrown<ContractError>([&] { job.rebuild(); }),
                      HasSubstr("rebuild: in the middle of a window"));
          job.optimizer->zero_grad();
        });
    EXPECT_EQ(testing::difference_of(expected, actual.ended), "");
  }
}

TEST_P(RebuiltOnADevice, AModelThatMovedIsRefused) {
  const auto errors = testing::errors_on_ranks(2, [&](const Comm& comm) {
    PartsJob job(comm, Parts(torch::kFloat, parts_before(), 0, device(comm->rank())),
                 place(testing::parts_options(1)));
    job.parts = Parts(torch::kFloat, parts_before(), 0, device(4 + comm->rank()));
    job.rebuild();
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("the changed model must stay where it is"),
                             HasSubstr("fake:4 instead of fake:0")));
}

}  // namespace
}  // namespace zero::accelerator_test
