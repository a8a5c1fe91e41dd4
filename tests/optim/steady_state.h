#pragma once

/// A training whose steps in the steady state are watched. Needs allocations.cpp.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libzero/collective/recorder.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/allocations.h"

namespace zero::testing {

inline constexpr int kWarmUp = 4;
inline constexpr int kRounds = 4;

/// Runs before or after the library's hook, which lies between the two.
class Border : public torch::autograd::FunctionPostHook {
 public:
  explicit Border(void (*action)() noexcept) : action_(action) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    action_();
    return outputs;
  }

 private:
  void (*action_)() noexcept;
};

struct Case {
  int world_size = 1;
  int stage = 2;
  torch::Dtype dtype = torch::kFloat;
  torch::Dtype wire = torch::kFloat;
  bool no_sync = false;
  std::int64_t bucket_bytes = 32 << 10;
  std::function<std::shared_ptr<Observer>()> observer = {};  ///< Makes each rank's; empty: none.
};

inline std::string name_of(const Case& c) {
  return "world " + std::to_string(c.world_size) + " stage " + std::to_string(c.stage) + " " +
         c10::toString(c.dtype) + " wire " + c10::toString(c.wire) + (c.no_sync ? " no_sync" : "");
}

/// Parameters that share, fill and overflow buckets of 32 KiB, in two groups.
class Training {
 public:
  Training(const std::shared_ptr<Collective>& comm, const Case& c) : case_(c) {
    const std::vector<std::vector<std::int64_t>> shapes = {{300, 7}, {40'000}, {5},    {64, 64},
                                                           {1000},   {},       {9'000}};
    for (const auto& shape : shapes) {
      const std::string name = "parameter_with_a_long_name_" + std::to_string(parameters_.size());
      parameters_.push_back({name, torch::ones(shape, c.dtype).requires_grad_()});
    }
    surround(enter_library);
    Options options;
    options.stage(c.stage).clip_norm(1.0).bucket_bytes(c.bucket_bytes).first_bucket_bytes(8 << 10);
    options.deterministic(!c.no_sync).wire(c.wire).loss_scaler({.initial_scale = 8});
    if (c.observer) options.observer(c.observer());
    options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                     AdamWOptions(1e-3).weight_decay(0.0)}});
    optimizer_ = std::make_unique<Optimizer>(parameters_, std::vector<NamedTensor>(),
                                             AdamWOptions(1e-3), options, comm);
    surround(leave_library);
  }

  void window() {
    if (case_.no_sync) {
      const auto scope = optimizer_->no_sync();
      optimizer_->backward(loss());
    }
    optimizer_->backward(loss(), 3);
    optimizer_->backward(loss(), 2);
    enter_library();
    const StepResult result = optimizer_->step();
    leave_library();
    EXPECT_TRUE(result.applied);
  }

  void shutdown() { optimizer_->shutdown(); }

 private:
  void surround(void (*action)() noexcept) {
    for (const NamedTensor& p : parameters_) {
      nodes_.push_back(torch::autograd::impl::grad_accumulator(p.tensor));
      nodes_.back()->add_post_hook(std::make_unique<Border>(action));
    }
  }

  torch::Tensor loss() const {
    auto sum = torch::zeros({});
    for (const NamedTensor& p : parameters_) sum = sum + p.tensor.to(torch::kFloat).square().mean();
    return sum;
  }

  Case case_;
  std::vector<NamedTensor> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> nodes_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Of rounds of the steady state, the communication threads' page faults included.
using Measured = std::vector<Costs>;

inline void measure_rank(const std::shared_ptr<Collective>& world, const Case& c,
                         Measured& measured) {
  const TrainingThread thread;
  at::set_num_threads(1);
  // As connect() gives it out.
  Training training(record_calls(world->split(0, world->rank())).collective, c);
  for (int i = 0; i < kWarmUp; ++i) training.window();
  for (int i = 0; i < kRounds; ++i) {
    world->barrier("")->wait();
    std::int64_t others = 0;
    if (world->rank() == 0) {
      faults_of_other_threads();
      others = faults_of_other_threads();
      take_costs();
    }
    world->barrier("")->wait();
    training.window();
    world->barrier("")->wait();
    if (world->rank() != 0) continue;
    Costs costs = take_costs();
    costs.faults += faults_of_other_threads() - others;
    measured.push_back(costs);
  }
  training.shutdown();
}

/// Makes the world of one rank; called by each on a thread of its own.
using Join = std::function<std::shared_ptr<Collective>(int rank)>;

/// Returns the costs of each round, in which only excused allocations are left.
inline Measured expect_no_costs(const Case& c, const Join& join) {
  SCOPED_TRACE(name_of(c));
  const TrainingThread thread;  // this one only waits
  Measured measured;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < c.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto world = join(rank);
      measure_rank(world, c, measured);
      world->shutdown();
    });
  }
  for (std::thread& rank : threads) rank.join();
  EXPECT_EQ(measured.size(), static_cast<std::size_t>(kRounds));
  if (measured.empty()) return measured;
  std::int64_t fewest_faults = measured.front().faults;
  for (const Costs& costs : measured) {
    EXPECT_EQ(costs.allocations, 0);
    fewest_faults = std::min(fewest_faults, costs.faults);
  }
  // The kernel may move a page at any time; what the library does, it does in every round.
  EXPECT_EQ(fewest_faults, 0);
  return measured;
}

}  // namespace zero::testing
