#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <map>

#include "tests/optim/misuse_support.h"

// Models that nobody would think of, against themselves at world 1 and stage 0.

namespace zero {
namespace {

using testing::Comm;
using testing::Snapshot;

struct RandomParameter {
  std::vector<std::int64_t> shape;
  torch::Dtype dtype = torch::kFloat;
  bool transposed = false;
  bool trainable = true;
  bool used = true;
};

struct RandomModel {
  std::vector<RandomParameter> parameters;
  std::int64_t bucket_bytes = 1;
  std::int64_t first_bucket_bytes = 1;
  double clip_norm = 0;
  std::int64_t windows = 1;
  bool defer = false;
};

/// Uniform from the first case on: inRange alone begins with the smallest numbers.
template <typename T>
T pick(T begin, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(begin, end));
}

RandomParameter random_parameter() {
  RandomParameter parameter;
  const int rank = pick(0, 4);
  for (int d = 0; d < rank; ++d) {
    // Mostly small; sometimes beyond a block of 4096, so that ranks share a parameter, but below
    // the 32768 elements from which LibTorch takes more threads.
    const bool large = d == 0 && pick(0, 3) == 0;
    const bool beside_large = d > 0 && parameter.shape.front() > 5;
    parameter.shape.push_back(large ? pick<std::int64_t>(2000, 8000)
                                    : pick<std::int64_t>(0, beside_large ? 3 : 5));
  }
  parameter.dtype = *rc::gen::element(torch::kFloat, torch::kFloat, torch::kHalf, torch::kBFloat16);
  parameter.transposed = rank >= 2 && *rc::gen::arbitrary<bool>();
  parameter.trainable = pick(0, 6) != 0;
  parameter.used = pick(0, 6) != 0;
  return parameter;
}

RandomModel random_model() {
  RandomModel model;
  const int count = pick(1, 9);
  for (int i = 0; i < count; ++i) model.parameters.push_back(random_parameter());
  model.parameters.front().trainable = true;
  model.parameters.front().used = true;
  model.bucket_bytes = *rc::gen::element<std::int64_t>(1, 100, 5000, 40000, 1 << 20);
  model.first_bucket_bytes = *rc::gen::element<std::int64_t>(1, 100, 5000);
  model.clip_norm = *rc::gen::element(0.0, 0.01, 1e9);
  model.windows = pick<std::int64_t>(1, 3);
  model.defer = *rc::gen::arbitrary<bool>();
  return model;
}

std::vector<NamedTensor> make_tensors(const RandomModel& model) {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const RandomParameter& parameter = model.parameters[i];
    auto tensor = testing::numbers(parameter.shape, static_cast<double>(i)).to(parameter.dtype);
    if (parameter.transposed) tensor = tensor.transpose(0, 1).contiguous().transpose(0, 1);
    // A sum of strings would raise g++ 12's false alarm of -Wstringop-overflow here.
    result.push_back({c10::str("p", i), tensor.requires_grad_(parameter.trainable)});
  }
  return result;
}

/// Each parameter's gradient is its own, another one in each micro-batch and element.
torch::Tensor loss_of(const RandomModel& model, const std::vector<NamedTensor>& tensors,
                      std::int64_t micro) {
  auto loss = torch::zeros({});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!model.parameters[i].used) continue;
    const auto p = tensors[i].tensor.to(torch::kFloat);
    loss = loss + (p * testing::numbers(model.parameters[i].shape,
                                        7.0 * static_cast<double>(micro) + static_cast<double>(i)))
                      .sum();
  }
  return loss;
}

using State = std::map<std::string, torch::Tensor>;

const std::vector<StateKind> kKinds = {StateKind::kMaster, StateKind::kExpAvg,
                                       StateKind::kExpAvgSq};

/// gather() of everything, after checking it against the pieces of for_each_shard and against
/// extents().
State checked_state(Optimizer& optimizer, const Comm& comm) {
  State state;
  const Layout& layout = optimizer.layout();
  for (const StateKind kind : kKinds) {
    for (const ParameterSpec& spec : layout.parameters()) {
      if (spec.trainable) {
        state[spec.name + "/" + std::to_string(static_cast<int>(kind))] =
            optimizer.gather(spec.name, kind);
      }
    }
    std::vector<Extent> visited;
    optimizer.for_each_shard(kind, [&](const ShardView& view) {
      visited.push_back({view.parameter, view.begin, view.end});
      const auto whole =
          state.at(view.name + "/" + std::to_string(static_cast<int>(kind))).reshape({-1});
      const auto piece = torch::from_blob(view.values.data(), {view.end - view.begin});
      EXPECT_EQ(view.values.size(), static_cast<std::size_t>(view.end - view.begin));
      EXPECT_TRUE(torch::equal(whole.slice(0, view.begin, view.end), piece)) << view.name;
    });
    EXPECT_EQ(visited, layout.extents(comm->rank(), comm->size()));
  }
  for (const ParameterSpec& spec : layout.parameters()) {
    if (spec.trainable)
      state[spec.name + "/gradient"] = optimizer.gather(spec.name, StateKind::kGradient);
  }
  return state;
}

struct Outcome {
  std::vector<Snapshot> parameters;  // by rank
  State state;
  std::vector<double> norms;
};

Outcome train(const RandomModel& model, int world_size, int stage) {
  Outcome outcome;
  outcome.parameters.resize(static_cast<std::size_t>(world_size));
  testing::on_every_rank(world_size, [&](const Comm& comm) {
    const auto tensors = make_tensors(model);
    Options options;
    options.stage(stage).clip_norm(model.clip_norm).defer_reduction(model.defer);
    options.bucket_bytes(model.bucket_bytes).first_bucket_bytes(model.first_bucket_bytes);
    options.loss_scaler({.initial_scale = 16});
    Optimizer optimizer(tensors, {}, AdamWOptions(1e-2).weight_decay(0.1), options, comm);
    std::vector<double> norms;
    for (std::int64_t window = 0; window < model.windows; ++window) {
      for (std::int64_t i = comm->rank(); i < 6; i += comm->size()) {
        optimizer.backward(loss_of(model, tensors, window * 6 + i));
      }
      const StepResult result = optimizer.step();
      EXPECT_TRUE(result.applied) << result.reason;
      norms.push_back(result.grad_norm);
    }
    const State state = checked_state(optimizer, comm);
    Snapshot& parameters = outcome.parameters[static_cast<std::size_t>(comm->rank())];
    for (const auto& [name, tensor] : tensors)
      parameters.emplace_back(name, tensor.detach().clone());
    optimizer.shutdown();
    if (comm->rank() > 0) return;
    outcome.state = state;
    outcome.norms = norms;
  });
  return outcome;
}

RC_GTEST_PROP(RandomModel, GivesOneSetOfBitsOnEveryWorldAndStage, ()) {
  const RandomModel model = random_model();
  const int world_size = pick(1, 4);
  const int stage = pick(0, 3);
  const Outcome expected = train(model, 1, 0);
  const Outcome actual = train(model, world_size, stage);
  for (const Snapshot& rank : actual.parameters) {
    const bool is_same = testing::same(expected.parameters.front(), rank);
    RC_ASSERT(is_same);
  }
  RC_ASSERT(expected.norms == actual.norms);
  RC_ASSERT(expected.state.size() == actual.state.size());
  for (const auto& [name, value] : expected.state) {
    const bool is_same = torch::equal(value, actual.state.at(name));
    RC_ASSERT(is_same);
  }
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace zero
