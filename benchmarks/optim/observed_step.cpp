#include "observed_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/self.h"
#include "libzero/observe/late_rank.h"
#include "libzero/observe/observers.h"
#include "libzero/observe/step_meter.h"
#include "libzero/observe/timeline.h"
#include "libzero/optim/optimizer.h"

namespace zero::benchmark {
namespace {

constexpr int kParameters = 40;
constexpr std::int64_t kElements = 100'000;
constexpr int kWindows = 8;  // of one round

std::shared_ptr<Observer> everything() {
  return std::make_shared<observe::Observers>(std::vector<std::shared_ptr<Observer>>{
      std::make_shared<observe::Timeline>(
          observe::TimelineOptions{.skip = 0, .steps = 10'000, .room = std::size_t{1} << 20}),
      std::make_shared<observe::StepMeter>(), std::make_shared<observe::LateRank>()});
}

class Rank {
 public:
  explicit Rank(std::shared_ptr<Observer> observer) {
    at::set_num_threads(1);
    for (int i = 0; i < kParameters; ++i)
      parameters_.push_back(
          {"parameter" + std::to_string(i), at::ones({kElements}).set_requires_grad(true)});
    optimizer_ = std::make_unique<Optimizer>(
        parameters_, std::vector<NamedTensor>(), AdamWOptions(1e-3),
        Options().clip_norm(1.0).bucket_bytes(4 * kElements).observer(std::move(observer)),
        make_self());
  }
  ~Rank() { optimizer_->shutdown(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void windows() {
    for (int i = 0; i < kWindows; ++i) {
      at::Tensor loss = at::ones({});
      for (const NamedTensor& p : parameters_) loss = loss.add(p.tensor.mul(p.tensor).sum());
      optimizer_->backward(loss);
      optimizer_->step();
    }
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

Contender contender(std::shared_ptr<Observer> observer) {
  const auto rank = std::make_shared<Rank>(std::move(observer));
  return {nullptr, [rank] { rank->windows(); }, nullptr, false};
}

}  // namespace

Comparison observed_step() {
  return {"step.observed",
          "8 windows of 40 buckets of 100,000 elements on 1 rank, with timeline, meter and watch "
          "over late ranks, against none",
          1.01, contender(everything()), contender(nullptr)};
}

}  // namespace zero::benchmark
