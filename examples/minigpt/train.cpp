#include "examples/minigpt/train.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include "examples/minigpt/checkpoints.h"
#include "examples/minigpt/evaluate.h"
#include "examples/minigpt/failure.h"
#include "examples/minigpt/model.h"
#include "examples/minigpt/observation.h"
#include "examples/minigpt/report.h"
#include "examples/minigpt/setup.h"
#include "examples/minigpt/text_data.h"
#include "libzero/zero.h"

namespace minigpt {
namespace {

class Training {
 public:
  Training(const Flags& flags, torch::Device device, const std::shared_ptr<zero::Collective>& comm)
      : flags_(flags),
        device_(device),
        comm_(comm),
        is_speaker_(comm->rank() == 0),
        data_(read_text(flags.data, flags.context)),
        precision_(precision_of(flags, device)),
        model_(make_model(flags, device, precision_.dtype)),
        observation_(flags, comm->rank(), [this](const std::string& line) { say(line); }),
        optimizer_(*model_, rule_of(flags),
                   optimizer_options(flags).observer(observation_.observer()), comm),
        rate_(optimizer_, schedule_of(flags)),
        progress_(last_step()),
        checkpoints_(flags, optimizer_, *comm, data_.training.count(),
                     [this](const std::string& line) { say(line); }) {}

  void run() {
    try {
      run_to_the_end();
    } catch (const zero::CommError&) {
      observation_.save_what_there_is();
      throw;
    } catch (const std::exception& error) {
      observation_.save_what_there_is();
      optimizer_.abort(text_of(error));
      throw;
    }
  }

 private:
  void run_to_the_end() {
    say(introduction(flags_, optimizer_.layout(), *comm_, precision_.explanation, device_.str()));
    checkpoints_.begin();
    const bool is_fresh = optimizer_.steps_taken() == 0;
    observation_.begin(/*append=*/!is_fresh);
    if (flags_.eval_every > 0 && is_fresh) evaluate_and_say(0);
    const bool is_whole = go_on();
    observation_.finish();
    checkpoints_.finish();
    const auto average = average_of_weights();
    optimizer_.shutdown();
    comm_->shutdown();  // the others need not wait while one rank writes
    if (is_speaker_ && is_whole && flags_.sample > 0) {
      say("sample: " + printable(generate(model_, flags_.sample, flags_.context, flags_.seed)));
    }
  }

  /// With --ema the model holds it as long as this lives.
  std::optional<zero::EmaScope> average_of_weights() {
    if (flags_.ema == 0) return std::nullopt;
    return optimizer_.ema_scope();
  }

  static MiniGpt make_model(const Flags& flags, torch::Device device, torch::Dtype dtype) {
    torch::manual_seed(flags.seed);
    MiniGpt model(ModelOptions{flags.layers, flags.width, flags.heads, flags.context, flags.dropout,
                               flags.recompute});
    model->to(device, dtype);
    return model;
  }

  std::int64_t last_step() const {
    return flags_.stop_after > 0 ? std::min(flags_.stop_after, flags_.steps) : flags_.steps;
  }

  /// From wherever the run stands to its end; false if a signal ends it before.
  bool go_on() {
    SampleOrder order(data_.training.count(), flags_.seed);
    if (optimizer_.steps_taken() >= last_step())
      say("all " + std::to_string(last_step()) +
          " steps are taken already; there is nothing to do");
    while (optimizer_.steps_taken() < last_step()) {
      const std::int64_t step = optimizer_.steps_taken() + 1;
      const bool is_last = step == last_step();
      const bool stops = one_step(step, order.at(checkpoints_.samples_seen(), flags_.batch));
      checkpoints_.count_step();
      if (stops && !is_last) {
        checkpoints_.leave();
        return false;
      }
      if (flags_.eval_every > 0 && (step % flags_.eval_every == 0 || is_last))
        evaluate_and_say(step);
      checkpoints_.save_if_due(is_last);
    }
    return true;
  }

  /// True if a rank asked all to stop.
  bool one_step(std::int64_t step, const std::vector<std::int64_t>& samples) {
    const auto start = std::chrono::steady_clock::now();
    rate_.go_to(optimizer_.steps_applied());
    const double lr = rate_.rates().front();
    optimizer_.begin_forward();
    backward_of(samples);
    checkpoints_.request_stop_if_signalled();
    const zero::StepResult result = optimizer_.step();
    tell(step, lr, start, samples, result);
    return result.stop_requested;
  }

  /// The rank's share of one step. A micro-batch draws the same random numbers on whichever rank.
  void backward_of(const std::vector<std::int64_t>& samples) {
    zero::SampleBatch batch;
    batch.samples = samples;
    for (const zero::MicroBatch& micro :
         zero::share_of(batch, flags_.micro_batch, comm_->rank(), comm_->size())) {
      const zero::MicroBatchRandom random(flags_.seed, optimizer_.steps_taken(), micro.index);
      optimizer_.backward(loss_of(batch_of(data_.training, micro.samples, device_)));
    }
  }

  /// Backward must lie outside of autocast's region.
  torch::Tensor loss_of(const torch::Tensor& windows) {
    std::optional<zero::Autocast> autocast;
    if (flags_.autocast == "bf16") autocast.emplace(device_.type(), torch::kBFloat16);
    return model_->loss(windows);
  }

  void tell(std::int64_t step, double lr, std::chrono::steady_clock::time_point start,
            const std::vector<std::int64_t>& samples, const zero::StepResult& result) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double tokens_per_second = static_cast<double>(flags_.batch * flags_.context) / seconds;
    observation_.step(
        {step, lr, seconds, tokens_per_second, result, flags_.log_samples ? &samples : nullptr});
    if (!is_speaker_) return;
    progress_.show(step, result.loss, tokens_per_second, result.grad_norm, result.host_bytes,
                   result.device_bytes);
    if (!result.applied) say("step " + std::to_string(step) + " was skipped: " + result.reason);
  }

  void evaluate_and_say(std::int64_t step) {
    const auto average = average_of_weights();
    const double loss = evaluate(model_, data_.validation, *comm_);
    if (!is_speaker_) return;
    observation_.evaluation(step, loss);
    char text[96];
    std::snprintf(text, sizeof text, "step %lld: validation loss %.4f nats per byte",
                  static_cast<long long>(step), loss);
    say(text);
  }

  void say(const std::string& line) {
    if (is_speaker_) progress_.say(line);
  }

  const Flags& flags_;
  torch::Device device_;
  std::shared_ptr<zero::Collective> comm_;
  bool is_speaker_;
  TextData data_;
  Precision precision_;
  MiniGpt model_;
  Observation observation_;
  zero::Optimizer optimizer_;
  zero::LearningRate rate_;  // its peaks are --lr, whatever a checkpoint says
  Progress progress_;
  Checkpoints checkpoints_;  // last: it may say something while it goes
};

}  // namespace

void train(const Flags& flags, torch::Device device,
           const std::shared_ptr<zero::Collective>& comm) {
  at::set_num_threads(flags.threads);
  if (!flags.share_device) zero::require_own_devices(device, *comm);
  Training(flags, device, comm).run();
}

}  // namespace minigpt
