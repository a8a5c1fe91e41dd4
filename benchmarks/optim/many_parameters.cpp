#include "many_parameters.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libzero/collective/threads.h"
#include "libzero/optim/optimizer.h"

namespace zero::benchmark {
namespace {

constexpr std::int64_t kParameters = 5000;

std::vector<std::int64_t> small_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < kParameters; ++i) sizes.push_back(1000 + i * 37 % 1001);
  return sizes;
}

std::vector<std::int64_t> one_size() {
  std::int64_t total = 0;
  for (const std::int64_t size : small_sizes()) total += size;
  return {total};
}

/// One rank with its parameters.
class Rank {
 public:
  Rank(const std::vector<std::int64_t>& sizes, const std::shared_ptr<Collective>& comm) {
    at::set_num_threads(1);
    for (const std::int64_t size : sizes) {
      const std::string name = "parameter" + std::to_string(parameters_.size());
      parameters_.push_back({name, at::ones({size}).set_requires_grad(true)});
    }
    optimizer_ =
        std::make_unique<Optimizer>(parameters_, std::vector<NamedTensor>(), AdamWOptions(1e-3),
                                    Options().stage(2).clip_norm(1.0), comm);
  }

  void backward() {
    std::vector<at::Tensor> sums;
    for (const NamedTensor& p : parameters_) sums.push_back(p.tensor.sum());
    optimizer_->backward(at::stack(sums).sum());
    optimizer_->gather(parameters_.front().name, StateKind::kMaster);  // waits for the reductions
  }

  void step() { optimizer_->step(); }
  void shutdown() { optimizer_->shutdown(); }

 private:
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// All ranks of one model. Each call runs on a thread for every rank but the first, which is the
/// caller's: step() waits for the other ranks anyway.
class World {
 public:
  World(const std::vector<std::int64_t>& sizes, int world_size)
      : comms_(make_threads(world_size, std::chrono::minutes(5))), ranks_(comms_.size()) {
    on_all([&](std::size_t r) { ranks_[r] = std::make_unique<Rank>(sizes, comms_[r]); });
  }
  ~World() {
    on_all([&](std::size_t r) { ranks_[r]->shutdown(); });
    on_all([&](std::size_t r) { comms_[r]->shutdown(); });
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void backward() {
    on_all([&](std::size_t r) { ranks_[r]->backward(); });
  }
  void step() {
    on_all([&](std::size_t r) { ranks_[r]->step(); });
  }

 private:
  template <typename Action>
  void on_all(Action action) {
    std::vector<std::thread> others;
    for (std::size_t r = 1; r < ranks_.size(); ++r) others.emplace_back(action, r);
    action(0);
    for (std::thread& other : others) other.join();
  }

  std::vector<std::shared_ptr<Collective>> comms_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

Contender contender(const std::vector<std::int64_t>& sizes, int world_size) {
  const auto world = std::make_shared<World>(sizes, world_size);
  return {[world] { world->backward(); }, [world] { world->step(); }, nullptr, false};
}

}  // namespace

Comparison many_parameters(int world_size) {
  return {
      "step.many_parameters.n" + std::to_string(world_size),
      "step() of 5,000 parameters of 1,000 to 2,000 elements against one of as many elements, " +
          std::to_string(world_size) + " ranks",
      1.5, contender(small_sizes(), world_size), contender(one_size(), world_size)};
}

}  // namespace zero::benchmark
