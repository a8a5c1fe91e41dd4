#include "observed_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libzero/collective/self.h"
#include "libzero/observe/json_lines.h"
#include "libzero/observe/late_rank.h"
#include "libzero/observe/metrics_server.h"
#include "libzero/observe/observers.h"
#include "libzero/observe/step_meter.h"
#include "libzero/observe/tensorboard.h"
#include "libzero/observe/timeline.h"
#include "libzero/optim/optimizer.h"
#include "tests/temporary_folder.h"

namespace zero::benchmark {
namespace {

constexpr int kParameters = 40;
constexpr std::int64_t kElements = 100'000;
constexpr int kWindows = 8;  // of one round

using Meter = std::shared_ptr<observe::StepMeter>;

std::shared_ptr<Observer> everything(const Meter& meter) {
  return std::make_shared<observe::Observers>(std::vector<std::shared_ptr<Observer>>{
      std::make_shared<observe::Timeline>(
          observe::TimelineOptions{.skip = 0, .steps = 10'000, .room = std::size_t{1} << 20}),
      meter, std::make_shared<observe::LateRank>()});
}

/// What a trainer writes after each step: a line of the log, scalars, figures for Prometheus.
class Export {
 public:
  explicit Export(Meter meter) : meter_(std::move(meter)) {}

  void step(const StepResult& result, double seconds) {
    const observe::StepTimes& times = meter_->last();
    observe::JsonObject line;
    line.add("step", result.step);
    add_to(line, result);
    add_to(line, times);
    log_.write(line);
    const observe::Scalar scalars[] = {{"loss/training", result.loss},
                                       {"optimizer/gradient_norm", result.grad_norm},
                                       {"time/step", seconds},
                                       {"time/forward", times.forward},
                                       {"time/backward", times.backward},
                                       {"time/update", times.update}};
    board_.add(result.step, scalars);
    metrics_.add(result, seconds, &times);
  }

 private:
  Meter meter_;
  testing::TemporaryFolder folder_;
  observe::JsonLines log_{folder_ / "log", false};
  observe::TensorBoard board_{folder_ / "board"};
  observe::MetricsServer metrics_{{}};
};

class Rank {
 public:
  explicit Rank(std::shared_ptr<Observer> observer, std::unique_ptr<Export> written = nullptr)
      : export_(std::move(written)) {
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
      const StepResult result = optimizer_->step();
      if (export_) export_->step(result, result.seconds);
    }
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Export> export_;
};

Contender contender(std::shared_ptr<Rank> rank) {
  return {nullptr, [rank = std::move(rank)] { rank->windows(); }, nullptr, false};
}

}  // namespace

Comparison observed_step() {
  const auto meter = std::make_shared<observe::StepMeter>();
  return {"step.observed",
          "8 windows of 40 buckets of 100,000 elements on 1 rank, with timeline, meter and watch "
          "over late ranks, against none",
          1.01, contender(std::make_shared<Rank>(everything(meter))),
          contender(std::make_shared<Rank>(nullptr))};
}

Comparison exported_step() {
  const auto meter = std::make_shared<observe::StepMeter>();
  return {"step.exported",
          "the same, and after each step a line of JSON, six scalars for TensorBoard and figures "
          "for Prometheus, against none",
          1.01,
          contender(std::make_shared<Rank>(everything(meter), std::make_unique<Export>(meter))),
          contender(std::make_shared<Rank>(nullptr))};
}

}  // namespace zero::benchmark
