// A step in the steady state takes no memory and touches none for the first time: step() from entry
// to return, the library's part of autograd's hooks, and whatever the communication threads do.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/allocations.h"
#include "tests/optim/ranks.h"

namespace zero {
namespace {

using testing::Costs;
using Comm = std::shared_ptr<Collective>;

constexpr int kWarmUp = 4;
constexpr int kRounds = 4;

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
};

std::string name_of(const Case& c) {
  return "world " + std::to_string(c.world_size) + " stage " + std::to_string(c.stage) + " " +
         c10::toString(c.dtype) + " wire " + c10::toString(c.wire) + (c.no_sync ? " no_sync" : "");
}

/// Parameters that share, fill and overflow buckets of 32 KiB, in two groups.
class Training {
 public:
  Training(const Comm& comm, const Case& c) : case_(c) {
    const std::vector<std::vector<std::int64_t>> shapes = {{300, 7}, {40'000}, {5},    {64, 64},
                                                           {1000},   {},       {9'000}};
    for (const auto& shape : shapes) {
      const std::string name = "parameter_with_a_long_name_" + std::to_string(parameters_.size());
      parameters_.push_back({name, torch::ones(shape, c.dtype).requires_grad_()});
    }
    surround(testing::enter_library);
    Options options;
    options.stage(c.stage).clip_norm(1.0).bucket_bytes(32 << 10).first_bucket_bytes(8 << 10);
    options.deterministic(!c.no_sync).wire(c.wire).loss_scaler({.initial_scale = 8});
    options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                     AdamWOptions(1e-3).weight_decay(0.0)}});
    optimizer_ = std::make_unique<Optimizer>(parameters_, std::vector<NamedTensor>(),
                                             AdamWOptions(1e-3), options, comm);
    surround(testing::leave_library);
  }

  void window() {
    if (case_.no_sync) {
      const auto scope = optimizer_->no_sync();
      optimizer_->backward(loss());
    }
    optimizer_->backward(loss(), 3);
    optimizer_->backward(loss(), 2);
    testing::enter_library();
    const StepResult result = optimizer_->step();
    testing::leave_library();
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

void measure_rank(const Comm& world, const Case& c, Measured& measured) {
  const testing::TrainingThread thread;
  at::set_num_threads(1);
  // As connect() gives it out.
  Training training(record_calls(world->split(0, world->rank())).collective, c);
  for (int i = 0; i < kWarmUp; ++i) training.window();
  for (int i = 0; i < kRounds; ++i) {
    world->barrier("")->wait();
    std::int64_t others = 0;
    if (world->rank() == 0) {
      testing::faults_of_other_threads();
      others = testing::faults_of_other_threads();
      testing::take_costs();
    }
    world->barrier("")->wait();
    training.window();
    world->barrier("")->wait();
    if (world->rank() != 0) continue;
    Costs costs = testing::take_costs();
    costs.faults += testing::faults_of_other_threads() - others;
    measured.push_back(costs);
  }
  training.shutdown();
}

Measured measure(const Case& c) {
  const testing::TrainingThread thread;  // this one only waits
  Measured measured;
  const auto rank = [&](const Comm& world) { measure_rank(world, c, measured); };
  if (c.world_size == 1) {
    rank(make_self());
  } else {
    testing::on_ranks(c.world_size, rank);
  }
  return measured;
}

void expect_nothing(const Case& c) {
  SCOPED_TRACE(name_of(c));
  const Measured measured = measure(c);
  ASSERT_EQ(measured.size(), static_cast<std::size_t>(kRounds));
  std::int64_t fewest_faults = measured.front().faults;
  for (const Costs& costs : measured) {
    EXPECT_EQ(costs.allocations, 0);
    fewest_faults = std::min(fewest_faults, costs.faults);
  }
  // The kernel may move a page at any time; what the library does, it does in every round.
  EXPECT_EQ(fewest_faults, 0);
}

TEST(SteadyState, AStepTakesNoMemoryAndFaultsNoPageOnAnyWorldStageAndPrecision) {
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf})
        expect_nothing({world_size, stage, dtype, dtype == torch::kHalf ? torch::kFloat : dtype});
    }
  }
}

TEST(SteadyState, NeitherDoesANarrowWire) {
  for (const int stage : {0, 1, 2}) expect_nothing({2, stage, torch::kFloat, torch::kBFloat16});
}

TEST(SteadyState, NeitherDoCallsInsideNoSync) {
  for (const int stage : {0, 1, 2}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16})
      expect_nothing({2, stage, dtype, dtype, /*no_sync=*/true});
  }
}

/// Keeps the compiler from leaving out what nobody reads.
std::vector<char>* volatile made = nullptr;

void make(std::size_t bytes) {
  made = new std::vector<char>(bytes, 'x');
}

TEST(SteadyState, TheCountersSeeAnAllocationAndAFault) {
  const testing::TrainingThread thread;
  testing::take_costs();
  make(100);
  delete made;
  EXPECT_EQ(testing::take_costs().allocations, 0) << "outside the library";
  testing::enter_library();
  make(std::size_t{8} << 20);  // its pages are new
  testing::leave_library();
  const Costs costs = testing::take_costs();
  EXPECT_EQ(costs.allocations, 2);
  EXPECT_GT(costs.faults, 0);
  delete made;
  std::thread([] { make(100); }).join();  // as a communication thread
  delete made;
  EXPECT_GE(testing::take_costs().allocations, 2);
}

}  // namespace
}  // namespace zero
