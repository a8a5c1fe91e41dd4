#pragma once

/// Trainings that are saved, thrown away, built anew and compared with a twin that never stopped.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/memory_store.h"
#include "checkpoint/store.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/misuse_support.h"
#include "tests/optim/rule_case.h"
#include "tests/optim/toy_model.h"
#include "tests/temporary_folder.h"

namespace zero::testing {

/// The toy model with buffers of every kind. Wide enough for shards of 4096 elements on four ranks.
struct SavedModelImpl : ToyModelImpl {
  explicit SavedModelImpl(torch::Dtype dtype = torch::kFloat) : ToyModelImpl(dtype, 96) {
    running = register_buffer("running", torch::arange(3, torch::kDouble) / 3);
    mask = register_buffer("mask", torch::tensor({1, 0, 1, 1, 0}).to(torch::kBool));
    counts = register_buffer("counts", torch::arange(6, torch::kInt).reshape({2, 3}));
    batches = register_buffer("batches", torch::zeros({}, torch::kLong));
    table = register_buffer("table", torch::arange(12, torch::kFloat).reshape({3, 4}).t());
    empty = register_buffer("empty", torch::zeros({0, 3}));
    bias = register_parameter("bias", torch::arange(8, torch::kFloat).reshape({2, 4}).t(),
                              /*requires_grad=*/false);
  }

  /// What a training does to buffers between steps.
  void see(std::int64_t step) {
    running.add_(0.25 * static_cast<double>(step + 1));
    mask.logical_not_();
    counts.add_(1);
    batches.add_(1);
    table.mul_(1.5);
  }

  torch::Tensor running, mask, counts, batches, table, empty, bias;
};
TORCH_MODULE(SavedModel);

inline constexpr std::int64_t kMicros = 12;

struct JobOptions {
  int stage = 2;
  torch::Dtype dtype = torch::kFloat;
  int seed = 0;  ///< Other numbers begin with other values everywhere.
  double lr = 1e-2;
  std::int64_t bucket_bytes = 50'000;
  std::function<void(Options&)> configure = {};  ///< Has the last word. May be empty.
  RuleCase rule = {};
};

inline Options options_of(const JobOptions& job) {
  Options options = toy_options(job.stage);
  options.bucket_bytes(job.bucket_bytes);
  LossScalerOptions scaler;
  scaler.initial_scale = 1 << 16;  // float16 skips some of the first steps and takes others
  scaler.growth_interval = 3;
  options.loss_scaler(scaler);
  for (ParameterGroup& group : options.groups()) group.options = job.rule.options(2e-2, 0.0);
  options.ema(job.rule.ema);
  if (job.configure) job.configure(options);
  return options;
}

/// LibTorch's generator belongs to the process: ranks that are threads take turns.
inline SavedModel make_model(const JobOptions& job) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  SavedModel model(job.dtype);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(0.125 * job.seed);
  for (auto& buffer : model->buffers()) {
    if (job.seed != 0) buffer.copy_(torch::zeros_like(buffer));
  }
  model->scale.fill_(2);
  return model;
}

/// Everything that must come back, as bytes.
using Image = std::map<std::string, std::string>;

inline std::string bytes_of(const torch::Tensor& tensor) {
  const auto whole = tensor.detach().contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

inline std::string first_difference(const Image& expected, const Image& actual) {
  for (const auto& [name, bytes] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return name + " is missing";
    if (found->second != bytes) return name + " differs";
  }
  return expected.size() == actual.size() ? "" : "there is more";
}

/// One rank of a training.
class Job {
 public:
  explicit Job(Comm comm, JobOptions job = {})
      : comm_(std::move(comm)), kept_(job.rule.kept), model(make_model(job)) {
    at::set_num_threads(1);  // of this thread: ranks share the cores
    optimizer = std::make_unique<Optimizer>(*model, job.rule.options(job.lr, 0.1 + job.lr),
                                            options_of(job), comm_);
  }

  void train(std::int64_t until) {
    for (std::int64_t step = optimizer->steps_taken(); step < until; ++step) {
      for (std::int64_t i = comm_->rank(); i < kMicros; i += comm_->size())
        optimizer->backward(model->loss(toy_batch(step, i)));
      const StepResult result = optimizer->step();
      losses.push_back(number_text(result.loss) + " " + number_text(result.grad_norm));
      model->see(step);
      for (auto& group : optimizer->param_groups())  // a schedule with a memory
        group.options().set_lr(group.options().get_lr() * 0.875);
    }
  }

  /// Collective.
  Image image() {
    Image image;
    for (const auto& item : model->named_parameters()) {
      const std::string& name = item.key();
      image["parameter " + name] = bytes_of(item.value());
      if (!item.value().requires_grad()) continue;
      image["master " + name] = bytes_of(optimizer->gather(name, StateKind::kMaster));
      for (const StateKind kind : kept_)
        image[std::string(name_of(kind)) + " " + name] = bytes_of(optimizer->gather(name, kind));
    }
    for (const auto& item : model->named_buffers())
      image["buffer " + item.key()] = bytes_of(item.value());
    image["steps"] =
        std::to_string(optimizer->steps_taken()) + " " + std::to_string(optimizer->steps_applied());
    image["scale"] = number_text(optimizer->loss_scale());
    for (const auto& group : optimizer->param_groups()) {
      const auto text = [](const auto& options) {
        return number_text(options.lr()) + " " + number_text(options.weight_decay()) + ",";
      };
      const auto* adamw = dynamic_cast<const AdamWOptions*>(&group.options());
      image["options"] +=
          adamw != nullptr ? text(*adamw) : text(dynamic_cast<const SGDOptions&>(group.options()));
    }
    return image;
  }

  Comm comm_;
  std::vector<StateKind> kept_;
  SavedModel model;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::string> losses;
};

/// A job on each rank, which leaves in good order.
inline void on_jobs(int world_size, const JobOptions& options,
                    const std::function<void(Job& job)>& function) {
  on_every_rank(world_size, [&](const Comm& comm) {
    Job job(comm, options);
    function(job);
    job.optimizer->shutdown();
  });
}

/// After `steps` windows, the same at every stage and world size. Calculated once; any rank.
inline const Image& twin_image(torch::Dtype dtype, std::int64_t steps, const RuleCase& rule = {}) {
  static std::mutex mutex;
  static std::map<std::tuple<int, std::int64_t, std::string>, Image> images;
  const std::lock_guard lock(mutex);
  Image& image = images[{static_cast<int>(dtype), steps, rule.name}];
  if (image.empty()) {
    on_jobs(1, {.stage = 0, .dtype = dtype, .rule = rule}, [&](Job& job) {
      job.train(steps);
      image = job.image();
    });
  }
  return image;
}

}  // namespace zero::testing
