#pragma once

/// What the misuse tests share: a tiny model in several buckets, and windows of work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/threads.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/ranks.h"
#include "tests/stopwatch.h"
#include "tests/thrown.h"

namespace zero::testing {

using Comm = std::shared_ptr<Collective>;
using Snapshot = std::vector<std::pair<std::string, torch::Tensor>>;

/// `function` on every rank, none of which may throw.
inline void on_every_rank(int world_size, const RankFunction& function) {
  const std::vector<std::string> errors =
      errors_on_ranks(world_size, function, std::chrono::seconds(60));
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank;
  }
}

/// Numbers without a pattern, and without the process's generator.
inline torch::Tensor numbers(torch::IntArrayRef shape, double seed, double scale = 0.5) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  const auto index = torch::arange(count, torch::kDouble);
  return (torch::sin(index * 1.7 + seed) * scale).to(torch::kFloat).reshape(shape);
}

/// Six parameters, in several buckets under tiny_options(): one larger than a block of 4096, so
/// that every rank of two owns something, one transposed, one scalar, one of no element.
struct TinyImpl : torch::nn::Module {
  explicit TinyImpl(torch::Dtype dtype = torch::kFloat) {
    first = register_parameter("first", numbers({6, 5}, 1));
    bias = register_parameter("bias", numbers({5}, 2));
    mixed = register_parameter("mixed", numbers({4, 5}, 3).t());
    large = register_parameter("large", numbers({4, 1100}, 4));
    gain = register_parameter("gain", torch::tensor(0.75f));
    nothing = register_parameter("nothing", torch::zeros({0, 3}));
    offset = register_buffer("offset", torch::full({1}, 0.25f));
    to(dtype);
  }

  torch::Tensor hidden(const torch::Tensor& x) {
    return torch::tanh(torch::matmul(x.to(first.dtype()), first) + bias);
  }
  torch::Tensor loss_of(const torch::Tensor& h) {
    const auto y = torch::matmul(torch::matmul(h, mixed), large) * gain + offset;
    return y.to(torch::kFloat).square().mean();
  }
  torch::Tensor loss(const torch::Tensor& x) { return loss_of(hidden(x)); }

  torch::Tensor first, bias, mixed, large, gain, nothing, offset;
};
TORCH_MODULE(Tiny);

inline torch::Tensor tiny_input(std::int64_t step, std::int64_t micro) {
  return numbers({3, 6}, 10.0 * static_cast<double>(step) + static_cast<double>(micro), 1.0);
}

inline Options tiny_options(int stage) {
  Options options;
  options.stage(stage).clip_norm(0.05).bucket_bytes(200).first_bucket_bytes(100);
  return options;
}

template <typename Module>
Snapshot snapshot(const Module& model) {
  Snapshot result;
  for (const auto& item : model->named_parameters()) {
    result.emplace_back(item.key(), item.value().detach().clone());
  }
  return result;
}

inline void expect_same(const Snapshot& expected, const Snapshot& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(expected[i].second, actual[i].second)) << expected[i].first;
  }
}

inline bool same(const Snapshot& a, const Snapshot& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i].second, b[i].second)) return false;
  }
  return a.size() == b.size();
}

/// One rank of a training.
struct Trainee {
  explicit Trainee(Comm communicator, const Options& options = tiny_options(2),
                   torch::Dtype dtype = torch::kFloat)
      : comm(std::move(communicator)), model(dtype) {
    optimizer =
        std::make_unique<Optimizer>(*model, AdamWOptions(1e-2).weight_decay(0.1), options, comm);
  }

  void backward(std::int64_t step, std::int64_t global_micros = 3 * 2) {
    for (std::int64_t i = comm->rank(); i < global_micros; i += comm->size()) {
      optimizer->backward(model->loss(tiny_input(step, i)));
    }
  }
  StepResult window(std::int64_t step) {
    backward(step);
    return optimizer->step();
  }

  Comm comm;
  Tiny model;
  std::unique_ptr<Optimizer> optimizer;
};

/// The parameters after windows 0 .. windows - 1 without any accident; the same on every stage and
/// world.
inline Snapshot without_accident(std::int64_t windows, torch::Dtype dtype = torch::kFloat) {
  Trainee trainee(make_threads(1, std::chrono::seconds(60)).front(), tiny_options(0), dtype);
  for (std::int64_t step = 0; step < windows; ++step) EXPECT_TRUE(trainee.window(step).applied);
  trainee.optimizer->shutdown();
  return snapshot(trainee.model);
}

/// `accident` between windows 0 and 1, on every stage and `world_size` ranks: the parameters must
/// come out as if it had not been.
template <typename Accident>
void expect_no_trace(
    int world_size, Accident accident,
    const std::function<void(Options&)>& configure = [](Options&) {}) {
  const Snapshot expected = without_accident(3);
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size));
    Options options = tiny_options(stage);
    configure(options);
    on_every_rank(world_size, [&](const Comm& comm) {
      Trainee trainee(comm, options);
      trainee.window(0);
      const Snapshot before = snapshot(trainee.model);
      accident(trainee);
      expect_same(before, snapshot(trainee.model));
      trainee.window(1);
      trainee.window(2);
      EXPECT_EQ(trainee.optimizer->steps_applied(), 3);
      expect_same(expected, snapshot(trainee.model));
      trainee.optimizer->shutdown();
    });
  }
}

/// Far below the communicators' timeout, far above what a loaded machine takes.
inline constexpr std::chrono::seconds kPrompt{15};

}  // namespace zero::testing
