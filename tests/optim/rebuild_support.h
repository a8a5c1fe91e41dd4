#pragma once

/// A model whose parameters come and go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libzero/base/number_text.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/misuse_support.h"

namespace zero::testing {

struct Part {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trains = true;
  double seed = 1;
  std::string tied_to = "";
  bool is_transposed = false;
};

/// Six buckets and more under parts_options(): parts of one rank's block, and over several.
inline std::vector<Part> parts_before() {
  return {{.name = "a", .shape = {70, 90}},
          {.name = "b", .shape = {9000}, .seed = 2},
          {.name = "c", .shape = {300, 10}, .seed = 3},
          {.name = "d", .shape = {5000}, .trains = false, .seed = 4},
          {.name = "t", .shape = {20, 100}, .seed = 5},
          {.name = "gone", .shape = {123}, .seed = 6},
          {.name = "m", .shape = {90, 70}, .seed = 7, .is_transposed = true},
          {.name = "s", .shape = {}, .seed = 8},
          {.name = "z", .shape = {0, 4}},
          {.name = "u", .shape = {20, 100}, .tied_to = "t"}};
}

/// a is frozen, b kept, c resized, d unfrozen, new is added, gone is gone; t comes later.
inline std::vector<Part> parts_after() {
  return {{.name = "a", .shape = {70, 90}, .trains = false},
          {.name = "b", .shape = {9000}, .seed = 2},
          {.name = "c", .shape = {350, 10}, .seed = 30},
          {.name = "d", .shape = {5000}, .seed = 4},
          {.name = "new", .shape = {4500}, .seed = 40},
          {.name = "m", .shape = {90, 70}, .seed = 7, .is_transposed = true},
          {.name = "s", .shape = {}, .seed = 8},
          {.name = "z", .shape = {0, 4}},
          {.name = "t", .shape = {20, 100}, .seed = 5},
          {.name = "u", .shape = {20, 100}, .tied_to = "t"}};
}

inline Options parts_options(int stage) {
  Options options;
  options.stage(stage).clip_norm(0.05).bucket_bytes(16'000).first_bucket_bytes(2000);
  options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                   AdamWOptions(2e-2).weight_decay(0.0)}});
  LossScalerOptions scaler;
  scaler.initial_scale = 256;
  scaler.growth_interval = 2;
  return options.loss_scaler(scaler);
}

/// Tensors by name, and a loss that gives every element a gradient of its own.
class Parts {
 public:
  explicit Parts(torch::Dtype dtype) : dtype_(dtype) {}
  Parts(torch::Dtype dtype, const std::vector<Part>& parts, double shift = 0,
        c10::Device device = torch::kCPU)
      : dtype_(dtype), device_(device) {
    for (const Part& part : parts) add(part, shift);
  }

  void add(const Part& part, double shift = 0) {
    if (!part.tied_to.empty()) {
      tensors.push_back({part.name, of(part.tied_to)});
      return;
    }
    torch::Tensor value = numbers(part.shape, part.seed + shift).to(dtype_).to(device_);
    if (part.is_transposed) value = value.t().contiguous().t();
    tensors.push_back({part.name, value.requires_grad_(part.trains)});
  }

  /// The tensors of `parts`: those of before that still fit, and new ones.
  void become(const std::vector<Part>& parts) {
    const Parts before = *this;
    tensors.clear();
    for (const Part& part : parts) {
      const bool is_new =
          !before.has(part.name) || before.of(part.name).sizes() != at::IntArrayRef(part.shape);
      if (is_new) {
        add(part);
      } else {
        tensors.push_back({part.name, before.of(part.name)});
        if (part.tied_to.empty()) of(part.name).requires_grad_(part.trains);
      }
    }
  }

  bool has(const std::string& name) const {
    for (const NamedTensor& item : tensors) {
      if (item.name == name) return true;
    }
    return false;
  }
  torch::Tensor of(const std::string& name) const {
    for (const NamedTensor& item : tensors) {
      if (item.name == name) return item.tensor;
    }
    throw std::out_of_range(name);
  }

  torch::Tensor loss(std::int64_t step, std::int64_t micro) const {
    torch::Tensor sum = torch::zeros({}, torch::device(device_).dtype(torch::kFloat));
    for (const NamedTensor& item : tensors) {
      const double seed = static_cast<double>(item.name[0]) + 7.0 * static_cast<double>(step) +
                          0.3 * static_cast<double>(micro);
      const auto x = numbers(item.tensor.sizes(), seed, 1.0).to(dtype_).to(device_);
      sum = sum + (item.tensor * x).to(torch::kFloat).square().sum();
    }
    return sum / 100;
  }

  std::vector<NamedTensor> tensors;
  std::vector<NamedTensor> buffers;

 private:
  torch::Dtype dtype_;
  c10::Device device_ = torch::kCPU;
};

inline constexpr std::int64_t kPartMicros = 4;

/// One rank of a training of parts.
class PartsJob {
 public:
  PartsJob(Comm communicator, Parts model, const Options& options)
      : comm(std::move(communicator)), parts(std::move(model)) {
    at::set_num_threads(1);
    optimizer = std::make_unique<Optimizer>(parts.tensors, parts.buffers,
                                            AdamWOptions(1e-2).weight_decay(0.1), options, comm);
  }

  void backward(std::int64_t step) {
    for (std::int64_t i = comm->rank(); i < micros; i += comm->size())
      optimizer->backward(parts.loss(step, i));
  }

  void train(std::int64_t until) {
    for (std::int64_t step = optimizer->steps_taken(); step < until; ++step) {
      backward(step);
      const StepResult result = optimizer->step();
      results += number_text(result.loss) + " " + number_text(result.grad_norm) + ",";
      for (auto& group : optimizer->param_groups())
        group.options().set_lr(group.options().get_lr() * 0.875);
    }
  }

  RebuildReport rebuild(const RebuildOptions& options = {}) {
    return optimizer->rebuild(parts.tensors, parts.buffers, options);
  }

  /// Collective: everything, as bytes.
  std::map<std::string, std::string> image() {
    std::map<std::string, std::string> image;
    const auto bytes = [](const torch::Tensor& tensor) {
      const auto whole = tensor.detach().to(torch::kCPU).contiguous();
      return std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
    };
    for (const auto& [name, tensor] : parts.tensors) {
      image["parameter " + name] = bytes(tensor);
      if (!tensor.requires_grad()) continue;
      image["master " + name] = bytes(optimizer->gather(name, StateKind::kMaster));
      image["exp_avg " + name] = bytes(optimizer->gather(name, StateKind::kExpAvg));
      image["exp_avg_sq " + name] = bytes(optimizer->gather(name, StateKind::kExpAvgSq));
    }
    for (const auto& [name, tensor] : parts.buffers) image["buffer " + name] = bytes(tensor);
    image["steps"] =
        std::to_string(optimizer->steps_taken()) + " " + std::to_string(optimizer->steps_applied());
    image["scale"] = number_text(optimizer->loss_scale());
    for (const auto& group : optimizer->param_groups())
      image["lr"] += number_text(group.options().get_lr()) + ",";
    image["results"] = results;
    return image;
  }

  Comm comm;
  Parts parts;
  std::unique_ptr<Optimizer> optimizer;
  std::string results;
  std::int64_t micros = kPartMicros;  // of all ranks, in a step
};

inline std::string difference_of(const std::map<std::string, std::string>& expected,
                                 const std::map<std::string, std::string>& actual) {
  for (const auto& [name, bytes] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return name + " is missing";
    if (found->second != bytes) return name + " differs";
  }
  return expected.size() == actual.size() ? "" : "there is more";
}

inline std::vector<std::string> names_of(const std::vector<RebuiltParameter>& parameters) {
  std::vector<std::string> names;
  for (const RebuiltParameter& one : parameters) names.push_back(one.name);
  return names;
}

}  // namespace zero::testing
