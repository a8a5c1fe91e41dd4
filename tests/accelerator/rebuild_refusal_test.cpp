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

/// rebuild() for a changed model, while something is broken on the last rank. Where it throws, the
/// model is as it was again, and is rebuilt so.
Refused run_refused(const Setting& setting, const std::function<Options(int rank)>& options_of,
                    const std::function<void(bool)>& set_broken) {
  Refused result{std::vector<std::string>(static_cast<std::size_t>(setting.world)), {}};
  testing::on_ranks(setting.world, [&](const Comm& comm) {
    const c10::DeviceGuard here(device(comm->rank()));  // pinned memory is asked for there
    std::string& error = result.errors[static_cast<std::size_t>(comm->rank())];
    PartsJob job(comm, Parts(setting.dtype, parts_before(), 0, device(comm->rank())),
                 options_of(comm->rank()));
    job.micros = kMicros;
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
  return run_on_the_cpu(dtype, change).ended;
}

class RefusedOnADevice : public StatePlaces {};
INSTANTIATE_TEST_SUITE_P(, RefusedOnADevice,
                         ::testing::Values(State::kHost, State::kDisk, State::kDevice),
                         name_of_state);

class RefusedByADisk : public StatePlaces {};
INSTANTIATE_TEST_SUITE_P(, RefusedByADisk, ::testing::Values(State::kDisk), name_of_state);

/// Each piece of pinned memory that rebuild() takes is refused in turn.
TEST_P(RefusedOnADevice, WithoutRoomOnOneRankNothingIsChangedOnAnyRank) {
  for (const Setting& setting : {Setting{torch::kFloat, 2, 2}, Setting{torch::kBFloat16, 1, 2}}) {
    SCOPED_TRACE(text_of(setting));
    const Image unchanged = ended_on_the_cpu(setting.dtype, change_nothing);
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
          setting,
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
      EXPECT_EQ(
          testing::difference_of(ended_on_the_cpu(setting.dtype, change_nothing), actual.ended),
          "");
    }
  }
}

TEST_P(RefusedOnADevice, InTheMiddleOfAWindowIsRefusedAndTheWindowGoesOn) {
  for (const Setting& setting : some_settings()) {
    SCOPED_TRACE(text_of(setting));
    const Image expected = ended_on_the_cpu(setting.dtype, change_nothing);
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
