#include "examples/resnet_cifar10/train.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <vector>

#include "examples/resnet_cifar10/evaluate.h"
#include "examples/resnet_cifar10/failure.h"
#include "examples/resnet_cifar10/images.h"
#include "examples/resnet_cifar10/model.h"
#include "libzero/zero.h"

namespace resnet {
namespace {

/// This rank's share of a step's images.
struct Loaded {
  std::vector<Batch> micros;
  zero::SamplerPosition end;  ///< Of the step: what a checkpoint keeps.
};

ResNet18 make_model(const Flags& flags) {
  torch::manual_seed(flags.seed);
  ResNet18 model(kClasses, flags.width);
  to_channels_last(*model);
  return model;
}

zero::Options optimizer_options(const Flags& flags) {
  const auto is_vector = [](const auto&, const auto& tensor) { return tensor.dim() < 2; };
  const auto without_decay = zero::AdamWOptions(flags.lr).weight_decay(0.0);
  return zero::Options()
      .stage(flags.stage)
      .clip_norm(flags.clip)
      .groups({{is_vector, without_decay}});
}

class Training {
 public:
  Training(const Flags& flags, const std::shared_ptr<zero::Collective>& comm)
      : flags_(flags),
        comm_(comm),
        training_(training_files(flags.data, flags.files)),
        test_(test_file(flags.data)),
        sampler_({.samples = training_.count(), .batch = flags.batch, .seed = flags.seed}),
        model_(make_model(flags)),
        optimizer_(*model_, zero::AdamWOptions(flags.lr).weight_decay(flags.weight_decay),
                   optimizer_options(flags), comm),
        rate_(optimizer_, zero::Schedule::one_cycle(flags.steps, {.rise = 0.2})),
        last_step_(flags.stop_after > 0 ? std::min(flags.stop_after, flags.steps) : flags.steps) {
    if (flags.checkpoint.empty()) return;
    checkpointer_.emplace(optimizer_, flags.checkpoint, zero::CheckpointOptions().keep(flags.keep));
  }

  void run() {
    introduce();
    if (!flags_.resume.empty()) resume();
    go_on();
    optimizer_.shutdown();
    comm_->shutdown();
  }

  /// This rank cannot go on: the others are told why.
  void abort(const std::string& why) { optimizer_.abort(why); }

 private:
  void introduce() {
    std::int64_t elements = 0;
    for (const auto& parameter : optimizer_.layout().parameters()) elements += parameter.numel();
    say("resnet_cifar10: %.2f M parameters, stage %d, %s, ranks: %d (%s), images: %ld",
        static_cast<double>(elements) / 1e6, flags_.stage, flags_.precision.c_str(), comm_->size(),
        std::string(comm_->backend()).c_str(), training_.count());
  }

  void resume() {
    const bool is_auto = flags_.resume == "auto";
    const auto options = zero::LoadOptions()
                             .reshard_on_load(flags_.reshard_on_load)
                             .keep_options({"weight_decay"});  // the flag counts
    const zero::LoadReport report =
        is_auto ? checkpointer_->resume(options) : optimizer_.load(flags_.resume, options);
    if (!report.found) {
      if (!is_auto)
        throw zero::ContractError("--resume: there is no checkpoint here: " + flags_.resume);
      return say("no checkpoint in %s yet: starting fresh", flags_.checkpoint.c_str());
    }
    sampler_.load(report.trainer);
    say("%sresumed after step %ld", to_text(report).c_str(), report.step);
  }

  /// On a thread of its own, ahead of the training.
  Loaded load_next() {
    const zero::SampleBatch batch = sampler_.next();
    Loaded loaded{{}, batch.end};
    for (const zero::MicroBatch& micro :
         zero::share_of(batch, flags_.micro_batch, comm_->rank(), comm_->size())) {
      loaded.micros.push_back(augmented(training_, micro.samples, flags_.seed, batch.begin.epoch));
    }
    return loaded;
  }

  void go_on() {
    if (optimizer_.steps_taken() >= last_step_) return test();  // what a finished run has come to
    zero::Prefetcher<Loaded> batches([this] { return std::optional(load_next()); }, 2);
    while (optimizer_.steps_taken() < last_step_) {
      const bool stops = one_step(*batches.next());
      const std::int64_t step = optimizer_.steps_taken();
      const bool is_last = stops || step == last_step_;
      if (is_last || (flags_.save_every > 0 && step % flags_.save_every == 0)) save();
      if (stops) return say("asked to stop after step %ld; go on with --resume", step);
      if (is_last || (flags_.eval_every > 0 && step % flags_.eval_every == 0)) test();
    }
  }

  /// True if a rank asked all to stop.
  bool one_step(const Loaded& loaded) {
    const auto start = std::chrono::steady_clock::now();
    rate_.go_to(optimizer_.steps_applied());
    for (const Batch& micro_batch : loaded.micros) optimizer_.backward(loss_of(micro_batch));
    if (signals_.received() != 0) optimizer_.request_stop();
    const zero::StepResult result = optimizer_.step();
    zero::sync_buffers(*model_, *comm_);  // each rank's BatchNorm has seen its own images
    position_ = loaded.end;
    tell(result, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return result.stop_requested;
  }

  torch::Tensor loss_of(const Batch& batch) {
    std::optional<zero::Autocast> autocast;
    if (flags_.precision == "bf16") autocast.emplace(torch::kCPU, torch::kBFloat16);
    const auto options =
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(flags_.label_smoothing);
    return torch::nn::functional::cross_entropy(model_->forward(batch.images), batch.labels,
                                                options);
  }

  void tell(const zero::StepResult& result, double seconds) {
    const std::int64_t step = optimizer_.steps_taken();
    if (!result.applied) say("step %ld was skipped: %s", step, result.reason.c_str());
    if (step % std::max<std::int64_t>(1, flags_.steps / 20) != 0 && step != last_step_) return;
    say("step %ld/%ld  loss %.9g  lr %.2e  %.0f images/s", step, flags_.steps, result.loss,
        rate_.rates().front(), static_cast<double>(flags_.batch) / seconds);
  }

  void test() {
    const Score score = evaluate(model_, test_, *comm_);
    say("step %ld: test loss %.4f, accuracy %.2f %% of %ld images", optimizer_.steps_taken(),
        score.loss, 100 * score.accuracy, test_.count());
  }

  void save() {
    zero::TrainerState state;
    sampler_.save(state, position_);
    if (checkpointer_) checkpointer_->save(state);
  }

  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) const {
    if (comm_->rank() != 0) return;
    std::va_list values;
    va_start(values, format);
    std::vprintf(format, values);
    va_end(values);
    std::puts("");
    std::fflush(stdout);
  }

  const Flags& flags_;
  std::shared_ptr<zero::Collective> comm_;
  zero::StopSignals signals_{SIGINT, SIGTERM, SIGUSR1};
  zero::CifarFiles training_, test_;
  zero::Sampler sampler_;
  ResNet18 model_;
  zero::Optimizer optimizer_;
  zero::LearningRate rate_;  // its peaks are --lr, whatever a checkpoint says
  std::optional<zero::Checkpointer> checkpointer_;
  std::int64_t last_step_;
  zero::SamplerPosition position_;  // after the last step; the sampler is ahead
};

}  // namespace

void train(const Flags& flags, const std::shared_ptr<zero::Collective>& comm) {
  at::set_num_threads(flags.threads);
  Training training(flags, comm);
  try {
    training.run();
  } catch (const zero::CommError&) {
    throw;
  } catch (const std::exception& error) {
    training.abort(text_of(error));
    throw;
  }
}

}  // namespace resnet
