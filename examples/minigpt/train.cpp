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
#include "examples/minigpt/text_data.h"
#include "libzero/zero.h"

namespace minigpt {
namespace {

/// A model of bytes that has learnt little writes control characters, too: a terminal would obey.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

struct Precision {
  torch::Dtype dtype;
  std::string explanation;
};

Precision precision_of(const std::string& flag, bool is_autocast, torch::Device device) {
  if (flag == "fp32") return {torch::kFloat, is_autocast ? "fp32, products in bf16" : "fp32"};
  if (flag == "bf16") return {torch::kBFloat16, "bf16"};
  if (flag == "fp16") return {torch::kHalf, "fp16"};
  if (!device.is_cpu()) return {torch::kBFloat16, "bf16 (auto: on a GPU)"};
  return {torch::kFloat, "fp32 (auto: on a CPU, where matrices of this size are slower in bf16)"};
}

/// After the warm-up, and what the whole run has left of it.
zero::Schedule body_of(const Flags& flags, std::int64_t updates, double end) {
  if (flags.schedule == "constant") return zero::Schedule::constant();
  if (flags.schedule == "linear") return zero::Schedule::linear(updates, end);
  if (flags.schedule == "polynomial") return zero::Schedule::polynomial(updates, 2.0, end);
  if (flags.schedule == "inverse-sqrt")
    return zero::Schedule::inverse_sqrt(std::max<std::int64_t>(1, flags.warmup));
  if (flags.schedule == "stable-decay") {  // the last fifth decays
    const std::int64_t decay = std::max<std::int64_t>(1, updates / 5);
    return zero::Schedule::stable_decay(updates - decay, decay, end);
  }
  return zero::Schedule::cosine(updates, end);
}

zero::Schedule schedule_of(const Flags& flags) {
  const double end = flags.lr > 0 ? flags.min_lr / flags.lr : 0.0;
  if (flags.schedule == "one-cycle") {  // rises by itself: a warm-up before it would be a peak more
    const std::int64_t updates = std::max<std::int64_t>(2, flags.steps);
    const double rise = static_cast<double>(flags.warmup) / static_cast<double>(updates);
    return zero::Schedule::one_cycle(updates, {.rise = std::clamp(rise, 0.01, 0.99), .end = end});
  }
  const std::int64_t updates = std::max<std::int64_t>(1, flags.steps - flags.warmup);
  return body_of(flags, updates, end).warmup(flags.warmup);
}

zero::RuleOptions rule_of(const Flags& flags, double weight_decay) {
  if (flags.optimizer == "sgd")
    return zero::SGDOptions(flags.lr).momentum(flags.momentum).weight_decay(weight_decay);
  return zero::AdamWOptions(flags.lr).betas({flags.beta1, flags.beta2}).weight_decay(weight_decay);
}

zero::Options optimizer_options(const Flags& flags) {
  zero::Options options;
  options.stage(flags.stage).clip_norm(flags.clip).checksum_every(flags.checksum_every);
  options.bucket_bytes(static_cast<std::int64_t>(flags.bucket_mib * (1 << 20)));
  options.first_bucket_bytes(std::min(options.first_bucket_bytes(), options.bucket_bytes()));
  options.defer_reduction(flags.defer_reduction).ema(flags.ema);
  if (flags.offload == "host") options.offload(zero::Offload::kHost);
  if (!flags.offload_dir.empty()) options.offload(zero::Offload::kDisk(flags.offload_dir));
  if (flags.wire == "fp32") options.wire(torch::kFloat);
  if (flags.wire == "bf16") options.wire(torch::kBFloat16);
  const auto is_no_matrix = [](const std::string&, const torch::Tensor& tensor) {
    return tensor.dim() < 2;
  };
  options.groups({{is_no_matrix, rule_of(flags, 0.0)}});
  return options;
}

/// Backward must lie outside of autocast's region.
torch::Tensor loss_of(MiniGpt& model, const torch::Tensor& windows, const Flags& flags) {
  std::optional<zero::Autocast> autocast;
  if (flags.autocast == "bf16") autocast.emplace(device_of(model).type(), torch::kBFloat16);
  return model->loss(windows);
}

/// The rank's share of one step: micro-batch i of the global batch belongs to rank i mod size, and
/// draws the same random numbers on whichever rank that is.
void backward_of(zero::Optimizer& optimizer, MiniGpt& model, const Windows& windows,
                 const std::vector<std::int64_t>& samples, const Flags& flags,
                 const zero::Collective& comm) {
  const std::int64_t micro_batches = flags.batch / flags.micro_batch;
  for (std::int64_t i = comm.rank(); i < micro_batches; i += comm.size()) {
    const auto begin = samples.begin() + i * flags.micro_batch;
    const std::vector<std::int64_t> micro(begin, begin + flags.micro_batch);
    const zero::MicroBatchRandom random(flags.seed, optimizer.steps_taken(), i);
    optimizer.backward(loss_of(model, batch_of(windows, micro, device_of(model)), flags));
  }
}

std::string introduction(const Flags& flags, const zero::Optimizer& optimizer,
                         const Precision& precision, torch::Device device,
                         const zero::Collective& comm) {
  std::int64_t elements = 0;
  for (const auto& parameter : optimizer.layout().parameters()) {
    if (parameter.alias_of < 0) elements += parameter.numel();
  }
  const std::string place =
      device.is_cpu() ? "" : " on " + device.str() + " with state in host memory";
  char text[320];
  std::snprintf(text, sizeof text,
                "minigpt: %.2f M parameters on %d rank%s (%s), stage %d, %s%s, %d thread%s a rank",
                static_cast<double>(elements) / 1e6, comm.size(), comm.size() == 1 ? "" : "s",
                std::string(comm.backend()).c_str(), flags.stage, precision.explanation.c_str(),
                place.c_str(), flags.threads, flags.threads == 1 ? "" : "s");
  return text;
}

class Training {
 public:
  Training(const Flags& flags, torch::Device device, const std::shared_ptr<zero::Collective>& comm)
      : flags_(flags),
        device_(device),
        comm_(comm),
        is_speaker_(comm->rank() == 0),
        data_(read_text(flags.data, flags.context)),
        precision_(precision_of(flags.precision, flags.autocast != "off", device)),
        model_(make_model(flags, device, precision_.dtype)),
        observation_(flags, comm->rank(), [this](const std::string& line) { say(line); }),
        optimizer_(*model_, rule_of(flags, flags.weight_decay),
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
    say(introduction(flags_, optimizer_, precision_, device_, *comm_));
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
    backward_of(optimizer_, model_, data_.training, samples, flags_, *comm_);
    checkpoints_.request_stop_if_signalled();
    const zero::StepResult result = optimizer_.step();
    tell(step, lr, start, samples, result);
    return result.stop_requested;
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
