// Real steps of ranks that are threads, as their timelines show them.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "libzero/observe/late_rank.h"
#include "libzero/observe/observers.h"
#include "libzero/observe/step_meter.h"
#include "libzero/observe/timeline.h"
#include "tests/optim/pull.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"
#include "tests/temporary_folder.h"

namespace zero::observe {
namespace {

using testing::fine_options;
using testing::on_every_stage;
using testing::on_ranks;
using testing::parameter;
using testing::toy_backward;
using testing::toy_options;
using testing::ToyModel;

std::vector<Span> spans_of(const Timeline& timeline, Activity activity) {
  std::vector<Span> found;
  for (const Lane lane : {Lane::kTraining, Lane::kCommunication}) {
    for (const TimelineSpan& entry : timeline.spans(lane)) {
      if (entry.span.activity == activity) found.push_back(entry.span);
    }
  }
  return found;
}

bool lies_inside(const Span& inner, const Span& outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

std::shared_ptr<Timeline> all_steps() {
  return std::make_shared<Timeline>(TimelineOptions{.skip = 0, .steps = 1000, .room = 4096});
}

/// One window of two buckets, in whose backward autograd stands still until the first bucket has
/// been reduced, or for so long.
std::shared_ptr<Timeline> observed_window(const std::shared_ptr<Collective>& comm,
                                          const Options& options,
                                          std::chrono::milliseconds patience) {
  const auto timeline = all_steps();
  const torch::Tensor early = parameter({1, 2}), late = parameter({3, 4});
  Options observed(options);
  observed.bucket_bytes(8).first_bucket_bytes(8).observer(timeline);
  Optimizer optimizer({{"early", early}, {"late", late}}, {}, AdamWOptions(0.1), observed, comm);
  optimizer.begin_forward();
  const torch::Tensor hidden = early * 2;
  hidden.register_hook([&](const torch::Tensor&) {
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (spans_of(*timeline, Activity::kReduce).empty() &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
  });
  optimizer.backward((hidden + late * late).sum());
  EXPECT_TRUE(optimizer.step().applied);
  optimizer.shutdown();
  return timeline;
}

TEST(ObservedOptimizer, ReducesBucketsInsideBackward) {
  on_every_stage(2, [](const auto& comm, int stage) {
    const auto timeline = observed_window(comm, fine_options(stage), std::chrono::seconds(10));
    const auto reductions = spans_of(*timeline, Activity::kReduce);
    const auto backward = spans_of(*timeline, Activity::kBackward);
    ASSERT_EQ(reductions.size(), 2u);
    ASSERT_EQ(backward.size(), 1u);
    EXPECT_TRUE(lies_inside(reductions[0], backward[0]));
    EXPECT_EQ(reductions[0].bucket, 0);
    EXPECT_GT(reductions[0].bytes, 0);
  });
}

TEST(ObservedOptimizer, ReducesNothingInsideBackwardWhereThatIsDeferred) {
  on_every_stage(2, [](const auto& comm, int stage) {
    const auto timeline = observed_window(comm, fine_options(stage).defer_reduction(true),
                                          std::chrono::milliseconds(50));
    const auto backward = spans_of(*timeline, Activity::kBackward);
    ASSERT_EQ(backward.size(), 1u);
    for (const Span& reduction : spans_of(*timeline, Activity::kReduce))
      EXPECT_GE(reduction.begin, backward[0].end);
    EXPECT_EQ(spans_of(*timeline, Activity::kReduce).size(), 2u);
  });
}

TEST(ObservedOptimizer, GathersBucketsWhileLaterOnesAreUpdated) {
  std::atomic<int> overlapping = 0;
  on_ranks(2, [&](const auto& comm) {
    at::set_num_threads(1);
    const auto timeline = all_steps();
    std::vector<NamedTensor> parameters;
    for (int i = 0; i < 8; ++i)
      parameters.push_back({"p" + std::to_string(i), torch::ones({1 << 19}).requires_grad_()});
    Optimizer optimizer(parameters, {}, AdamWOptions(0.1),
                        Options().bucket_bytes(2 << 20).observer(timeline), comm);
    for (int step = 0; step < 6; ++step) {
      torch::Tensor loss = torch::zeros({});
      for (const NamedTensor& p : parameters) loss = loss + p.tensor.sum();
      optimizer.backward(loss);
      optimizer.step();
    }
    optimizer.shutdown();
    const auto updates = spans_of(*timeline, Activity::kUpdate);
    for (const Span& gather : spans_of(*timeline, Activity::kGather)) {
      for (const Span& update : updates) {
        if (gather.begin < update.end && update.begin < gather.end) {
          EXPECT_GT(update.bucket, gather.bucket);
          ++overlapping;
        }
      }
    }
  });
  EXPECT_GT(overlapping, 0);
}

TEST(ObservedOptimizer, TellsWholeStepsOnEveryStageInOrderOnEachThread) {
  on_every_stage(2, [](const auto& comm, int stage) {
    const auto timeline = all_steps();
    ToyModel model;
    Optimizer optimizer(*model, AdamWOptions(1e-2), toy_options(stage).observer(timeline), comm);
    for (int step = 0; step < 3; ++step) {
      toy_backward(optimizer, model, step, 4, comm->rank(), comm->size());
      optimizer.step();
    }
    optimizer.shutdown();
    EXPECT_EQ(timeline->facts().rank, comm->rank());
    EXPECT_EQ(timeline->facts().stage, stage);
    const std::size_t buckets = timeline->facts().buckets.size();
    EXPECT_EQ(buckets, optimizer.layout().buckets().size());
    EXPECT_EQ(spans_of(*timeline, Activity::kBackward).size(), 6u);
    EXPECT_EQ(spans_of(*timeline, Activity::kForward).size(), 5u) << "the first begins nowhere";
    EXPECT_EQ(spans_of(*timeline, Activity::kVote).size(), 3u);
    EXPECT_EQ(spans_of(*timeline, Activity::kStep).size(), 3u);
    EXPECT_GE(spans_of(*timeline, Activity::kReduce).size(), 6 * buckets);
    EXPECT_EQ(spans_of(*timeline, Activity::kReduce).size(),
              spans_of(*timeline, Activity::kPack).size());
    EXPECT_GE(spans_of(*timeline, Activity::kGather).size(), 3 * buckets);
    EXPECT_GE(spans_of(*timeline, Activity::kUpdate).size(), 3 * buckets);
    for (const Lane lane : {Lane::kTraining, Lane::kCommunication}) {
      Nanoseconds last = 0;
      for (const TimelineSpan& entry : timeline->spans(lane)) {
        EXPECT_LE(entry.span.begin, entry.span.end);
        EXPECT_LE(last, entry.span.end);
        last = entry.span.end;
      }
    }
  });
}

TEST(ObservedOptimizer, KnowsTheBucketsOfEachTimeAfterRebuilds) {
  testing::TemporaryFolder folder;
  on_ranks(2, [&](const auto& comm) {
    const auto timeline = all_steps();
    const auto meter = std::make_shared<StepMeter>();
    std::vector<NamedTensor> parameters;
    for (int i = 0; i < 9; ++i)
      parameters.push_back({"p" + std::to_string(i), torch::ones({300}).requires_grad_()});
    const auto first = [&](int count) {
      return std::vector<NamedTensor>(parameters.begin(), parameters.begin() + count);
    };
    Optimizer optimizer(
        first(1), {}, AdamWOptions(0.1),
        Options().bucket_bytes(1200).first_bucket_bytes(1200).observer(
            std::make_shared<Observers>(std::vector<std::shared_ptr<Observer>>{timeline, meter})),
        comm);
    for (const int count : {1, 9, 2}) {
      optimizer.rebuild(first(count), {});
      torch::Tensor loss = torch::zeros({});
      for (const NamedTensor& p : first(count)) loss = loss + p.tensor.sum();
      optimizer.backward(loss);
      optimizer.step();
      EXPECT_EQ(meter->last().buckets.size(), static_cast<std::size_t>(count));
    }
    optimizer.shutdown();
    EXPECT_EQ(timeline->facts().buckets.size(), 2u);
    const std::string path = timeline_path(folder.path(), comm->rank());
    timeline->write(path);
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("bucket 8 (p0"), std::string::npos) << text;
  });
}

TEST(ObservedOptimizer, FindsTheRankThatIsLate) {
  on_ranks(3, [](const auto& comm) {
    const auto late = std::make_shared<LateRank>(LateRankOptions{.every = 4, .share = 0.1});
    const auto meter = std::make_shared<StepMeter>();
    ToyModel model;
    Optimizer optimizer(*model, AdamWOptions(1e-2),
                        toy_options(2).observer(std::make_shared<Observers>(
                            std::vector<std::shared_ptr<Observer>>{late, meter})),
                        comm);
    std::optional<Lateness> found;
    for (int step = 0; step < 4; ++step) {
      if (comm->rank() == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(60));  // its data
      toy_backward(optimizer, model, step, 3, comm->rank(), comm->size());
      optimizer.step();
      found = late->take();
      EXPECT_EQ(found.has_value(), step == 3);
    }
    EXPECT_GT(comm->rank() == 1 ? meter->last().forward : meter->last().reduce, 0.03);
    optimizer.shutdown();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->late_rank, 1);
    EXPECT_GT(found->waited, 0.02);
  });
}

struct Refuses : Observer {
  void begin(const OptimizerFacts&) override { throw std::runtime_error("no disk for it"); }
  void observe(const Span&) noexcept override {}
  void step_ended(const StepResult&) noexcept override {}
};

TEST(ObservedOptimizer, PassesOnWhatAnObserverThrowsAtTheBeginning) {
  const torch::Tensor p = parameter({1});
  EXPECT_THROW(Optimizer({{"p", p}}, {}, AdamWOptions(0.1),
                         Options().observer(std::make_shared<Refuses>()), make_self()),
               std::runtime_error);
}

}  // namespace
}  // namespace zero::observe
