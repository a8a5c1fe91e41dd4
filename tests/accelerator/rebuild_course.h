#pragma once

/// What tests of rebuild() on a device share: a training whose model changes under it, wherever
/// model and state lie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/optim/ranks.h"
#include "tests/optim/rebuild_support.h"
#include "tests/temporary_folder.h"

namespace zero::accelerator_test {

using testing::Parts;
using testing::parts_after;
using testing::parts_before;
using testing::PartsJob;
using Comm = std::shared_ptr<Collective>;
using Image = std::map<std::string, std::string>;

inline constexpr std::int64_t kChange = 1, kEnd = 2;
inline constexpr std::int64_t kMicros = 2;

/// Where masters and moments lie.
enum class State { kHost, kDisk, kDevice };

inline std::string name_of_state(const ::testing::TestParamInfo<State>& instance) {
  if (instance.param == State::kDisk) return "StateOnADisk";
  return instance.param == State::kHost ? "StateOnTheHost" : "StateOnTheDevice";
}

/// Where a rank's model lies.
using DeviceOf = std::function<c10::Device(int rank)>;
inline c10::Device the_cpu(int) {
  return torch::kCPU;
}

struct Setting {
  torch::Dtype dtype = torch::kFloat;
  int stage = 0;
  int world = 1;
};

inline std::string text_of(const Setting& setting) {
  return std::string(c10::toString(setting.dtype)) + ", stage " + std::to_string(setting.stage) +
         ", world " + std::to_string(setting.world);
}

inline std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const int stage : {0, 1, 2}) {
      for (const int world : {1, 2}) settings.push_back({dtype, stage, world});
    }
  }
  return settings;
}

inline std::vector<Setting> some_settings() {
  return {{torch::kFloat, 0, 1}, {torch::kFloat, 2, 2}, {torch::kBFloat16, 1, 2}};
}

/// Happens to the job after kChange steps, on every rank.
using Change = std::function<void(PartsJob&)>;

/// Everything right after the change, and at the end.
struct Course {
  Image changed, ended;
};

inline Course run(const Setting& setting, const DeviceOf& device_of, const Options& options,
                  const Change& change, const std::vector<testing::Part>& parts = parts_before()) {
  Course course;
  testing::on_ranks(setting.world, [&](const Comm& comm) {
    PartsJob job(comm, Parts(setting.dtype, parts, 0, device_of(comm->rank())), options);
    job.micros = kMicros;
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

/// The course of one rank on the CPU, which is that of all.
inline Course run_on_the_cpu(torch::Dtype dtype, const Change& change) {
  return run({dtype, 0, 1}, the_cpu, testing::parts_options(0), change);
}

/// Parameters are frozen, thawed, added, resized and let go; ranks have other values of new ones.
inline void change_everything(PartsJob& job) {
  job.parts.become(parts_after());
  if (job.comm->rank() > 0) {  // rank 0's values count
    const torch::NoGradGuard no_grad;
    for (const char* name : {"c", "new", "d"}) job.parts.of(name).add_(1);
  }
  const RebuildReport report = job.rebuild();
  EXPECT_THAT(testing::names_of(report.kept), ::testing::ElementsAre("b", "m", "s", "z", "t"));
  EXPECT_THAT(testing::names_of(report.fresh), ::testing::ElementsAre("c", "d", "new"));
  EXPECT_THAT(testing::names_of(report.dropped), ::testing::ElementsAre("a", "gone"));
}

inline void change_nothing(PartsJob&) {}

class StatePlaces : public ::testing::TestWithParam<State> {
 protected:
  Offload on_disk() const {
    return Offload::kDisk(folder_.path()).size({.block_elements = 1024, .blocks = 3, .threads = 2});
  }
  Options place(Options options) const {
    if (GetParam() == State::kDisk) return options.offload(on_disk());
    return in_place(options, GetParam() == State::kHost ? Place::kHost : Place::kDevice);
  }

 private:
  testing::TemporaryFolder folder_;
};

}  // namespace zero::accelerator_test
