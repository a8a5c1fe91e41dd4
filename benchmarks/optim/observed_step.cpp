#include "observed_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <memory>
#include <span>
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

/// Everything that watches, or nothing: one optimizer steps both ways, in the same memory. Two
/// optimizers differ by more than is measured here.
class Switch : public Observer {
 public:
  explicit Switch(const Meter& meter)
      : all_({std::make_shared<observe::Timeline>(observe::TimelineOptions{
                  .skip = 0, .steps = 10'000, .room = std::size_t{1} << 20}),
              meter, std::make_shared<observe::LateRank>()}) {}

  void turn(bool on) noexcept { on_ = on; }

  void begin(const OptimizerFacts& facts) override { all_.begin(facts); }
  void observe(const Span& span) noexcept override {
    if (on_) all_.observe(span);
  }
  void collective_times(std::span<const Nanoseconds> by_rank) noexcept override {
    if (on_) all_.collective_times(by_rank);
  }
  void step_ended(const StepResult& result) noexcept override {
    if (on_) all_.step_ended(result);
  }

 private:
  observe::Observers all_;
  std::atomic<bool> on_ = false;
};

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
  explicit Rank(bool exports) {
    const auto meter = std::make_shared<observe::StepMeter>();
    switch_ = std::make_shared<Switch>(meter);
    if (exports) export_ = std::make_unique<Export>(meter);
    at::set_num_threads(1);
    for (int i = 0; i < kParameters; ++i)
      parameters_.push_back(
          {"parameter" + std::to_string(i), at::ones({kElements}).set_requires_grad(true)});
    optimizer_ = std::make_unique<Optimizer>(
        parameters_, std::vector<NamedTensor>(), AdamWOptions(1e-3),
        Options().clip_norm(1.0).bucket_bytes(4 * kElements).observer(switch_), make_self());
  }
  ~Rank() { optimizer_->shutdown(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void windows(bool watched) {
    switch_->turn(watched);
    for (int i = 0; i < kWindows; ++i) {
      at::Tensor loss = at::ones({});
      for (const NamedTensor& p : parameters_) loss = loss.add(p.tensor.mul(p.tensor).sum());
      optimizer_->backward(loss);
      const StepResult result = optimizer_->step();
      if (export_ && watched) export_->step(result, result.seconds);
    }
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::shared_ptr<Switch> switch_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Export> export_;
};

Comparison comparison(const char* id, const char* what, bool exports) {
  const auto rank = std::make_shared<Rank>(exports);
  const auto contender = [&](bool watched) {
    return Contender{nullptr, [rank, watched] { rank->windows(watched); }, nullptr, false};
  };
  return {id, what, 1.01, contender(true), contender(false)};
}

}  // namespace

Comparison observed_step() {
  return comparison("step.observed",
                    "8 windows of 40 buckets of 100,000 elements on 1 rank, with timeline, meter "
                    "and watch over late ranks, against the same with all of them off",
                    false);
}

Comparison exported_step() {
  return comparison("step.exported",
                    "the same, and after each step a line of JSON, six scalars for TensorBoard and "
                    "figures for Prometheus, against all of it off",
                    true);
}

}  // namespace zero::benchmark
