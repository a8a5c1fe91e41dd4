// Optimizer::rebuild() where the model lies on a device: what is refused leaves no trace.

#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "tests/accelerator/rebuild_course.h"
#include "tests/nccl/fake/weather.h"
#include "tests/offload/disturbed_calls.h"
#include "tests/thrown.h"

namespace zero::accelerator_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Refused {
  std::vector<std::string> errors;  // by rank; empty where nothing was refused
  Image ended;
};

/// The model's change alone, without rebuild().
struct Model {
  std::vector<testing::Part> before;
  std::function<void(Parts&)> change;
};

Model parts() {
  return {parts_before(), [](Parts& parts) { parts.become(parts_after()); }};
}

/// Each tensor's image is another name's afterwards.
Model swapped_names() {
  const std::vector<testing::Part> before = {{.name = "x", .shape = {9000}},
                                             {.name = "y", .shape = {9000}, .seed = 2}};
  return {before,
          [](Parts& parts) { std::swap(parts.tensors[0].tensor, parts.tensors[1].tensor); }};
}

/// rebuild() for a changed model, while something is broken on the last rank. Where it throws, the
/// model is as it was again, and is rebuilt so.
Refused run_refused(const Model& model, const Setting& setting,
                    const std::function<Options(int rank)>& options_of,
                    const std::function<void(bool)>& set_broken) {
  Refused result{std::vector<std::string>(static_cast<std::size_t>(setting.world)), {}};
  testing::on_ranks(setting.world, [&](const Comm& comm) {
    const c10::DeviceGuard here(device(comm->rank()));  // pinned memory is asked for there
    std::string& error = result.errors[static_cast<std::size_t>(comm->rank())];
    PartsJob job(comm, Parts(setting.dtype, model.before, 0, device(comm->rank())),
                 options_of(comm->rank()));
    job.micros = kMicros;
    job.train(kChange);
    const std::vector<NamedTensor> before = job.parts.tensors;
    model.change(job.parts);
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
      job.parts.become(model.before);
      EXPECT_TRUE(job.rebuild().fresh.empty());
    }
    job.train(kEnd);
    const Image image = job.image();
    job.optimizer->shutdown();
    if (is_last) result.ended = image;
  });
  return result;
}

Image ended_on_the_cpu(const Model& model, torch::Dtype dtype,
                       const Change& change = change_nothing) {
  return run({dtype, 0, 1}, the_cpu, testing::parts_options(0), change, model.before).ended;
}

class RefusedOnADevice : public StatePlaces {};
INSTANTIATE_TEST_SUITE_P(, RefusedOnADevice,
                         ::testing::Values(State::kHost, State::kDisk, State::kDevice),
                         name_of_state);

/// State that lies elsewhere has the host's image of the model.
class RefusedBesideImages : public StatePlaces {};
INSTANTIATE_TEST_SUITE_P(, RefusedBesideImages, ::testing::Values(State::kHost, State::kDisk),
                         name_of_state);

class RefusedByADisk : public StatePlaces {};
INSTANTIATE_TEST_SUITE_P(, RefusedByADisk, ::testing::Values(State::kDisk), name_of_state);

/// As run_refused(), where the last rank does not get the `failing`-th piece of pinned memory.
Refused run_without_room(const Model& model, const Setting& setting, const Options& options,
                         int failing) {
  const auto set_broken = [=](bool is_broken) {
    if (!is_broken) return nccl_test::Weather::now().on_call(nullptr);
    const auto pieces = std::make_shared<std::atomic<int>>(0);
    nccl_test::Weather::now().on_call([=](const std::string& function, int index) {
      const bool counts = function == "cudaHostAlloc" && index == setting.world - 1;
      return counts && (*pieces)++ == failing ? 2 : 0;
    });
  };
  return run_refused(
      model, setting, [&](int) { return options; }, set_broken);
}

/// Each piece of pinned memory that rebuild() takes is refused in turn.
TEST_P(RefusedOnADevice, WithoutRoomOnOneRankNothingIsChangedOnAnyRank) {
  for (const Setting& setting : {Setting{torch::kFloat, 2, 2}, Setting{torch::kBFloat16, 1, 2}}) {
    SCOPED_TRACE(text_of(setting));
    const Image unchanged = ended_on_the_cpu(parts(), setting.dtype);
    const Image changed = ended_on_the_cpu(parts(), setting.dtype, change_everything);
    std::string texts;
    int failing = 0;
    for (; failing < 100; ++failing) {
      const Refused actual =
          run_without_room(parts(), setting, place(testing::parts_options(setting.stage)), failing);
      const bool is_through = actual.errors[0].empty();
      EXPECT_EQ(testing::difference_of(is_through ? changed : unchanged, actual.ended), "");
      EXPECT_EQ(actual.errors[0], actual.errors[1]);
      if (is_through) break;
      EXPECT_THAT(actual.errors[0],
                  HasSubstr("rank 1: device: there is no room for pinned host memory;"));
      texts += actual.errors[0];
    }
    if (GetParam() == State::kDevice) {
      EXPECT_GE(failing, 1);  // the norm's, and the payload's over other backends than NCCL
      continue;
    }
    EXPECT_EQ(failing, 5) << "images of what is new and two places for gradients: " << texts;
    for (const char* what : {"image of parameter c:", "image of parameter d:",
                             "image of parameter new:", "gradients on their way to the host:"})
      EXPECT_THAT(texts, HasSubstr(what));
  }
}

/// Images that the old and the new optimizer share keep what the old one holds.
TEST_P(RefusedBesideImages, WithoutRoomTensorsThatWereToChangeNamesKeepTheirs) {
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Image unchanged = ended_on_the_cpu(swapped_names(), setting.dtype);
    for (const int failing : {0, 1}) {
      const Refused actual = run_without_room(
          swapped_names(), setting, place(testing::parts_options(setting.stage)), failing);
      for (const std::string& error : actual.errors)
        EXPECT_THAT(error, HasSubstr("there is no room for pinned host memory"));
      EXPECT_EQ(testing::difference_of(unchanged, actual.ended), "");
    }
  }
}

TEST_P(RefusedByADisk, ThatFailsOnOneRankChangesNothingOnAnyRank) {
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
          parts(), setting,
          [&](int rank) {
            const Offload offload = on_disk();
            const bool is_last = rank == setting.world - 1;
            return testing::parts_options(setting.stage)
                .offload(is_last ? Offload(offload).calls(calls) : offload);
          },
          [&](bool is_broken) { broken = is_broken; });
      for (const std::string& error : actual.errors)
        EXPECT_THAT(error, AllOf(HasSubstr(setting.world > 1 ? "rank 1: " : ""),
                                 HasSubstr(is_full ? "No space left" : "Input/output error")));
      EXPECT_EQ(testing::difference_of(ended_on_the_cpu(parts(), setting.dtype), actual.ended), "");
    }
  }
}

TEST_P(RefusedOnADevice, InTheMiddleOfAWindowIsRefusedAndTheWindowGoesOn) {
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Image expected = ended_on_the_cpu(parts(), setting.dtype);
    const Course actual =
        run(setting, device, place(testing::parts_options(setting.stage)), [](PartsJob& job) {
          job.backward(kChange);
          EXPECT_THAT(testing::thrown<ContractError>([&] { job.rebuild(); }),
                      HasSubstr("rebuild: in the middle of a window"));
          job.optimizer->zero_grad();
        });
    EXPECT_EQ(testing::difference_of(expected, actual.ended), "");
  }
}

TEST_P(RefusedOnADevice, AModelThatMovedIsRefused) {
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
