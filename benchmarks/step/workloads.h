#pragma once

/// The two workloads: the same shapes, data and options as benchmarks/peers/workloads.py.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace zero::benchmark {

struct Workload {
  std::shared_ptr<torch::nn::Module> model;
  std::function<torch::Tensor(const torch::Tensor& micro_batch)> loss;
  std::function<torch::Tensor()> micro_batch;  ///< Draws a new one.
};

/// "minigpt": 10.8 M parameters, micro-batches of 4 x 128 tokens. "mlp": `depth` layers from
/// `hidden` to `hidden` between one from 1280 and one to 1024, micro-batches of 4 rows; 59.8 M
/// parameters for 4096 and 3. Throws ContractError for another name.
Workload make_workload(const std::string& name, std::int64_t hidden, std::int64_t depth);

}  // namespace zero::benchmark
