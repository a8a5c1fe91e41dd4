#include "examples/minigpt/train.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include "examples/minigpt/evaluate.h"
#include "examples/minigpt/model.h"
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

Precision precision_of(const std::string& flag) {
  if (flag == "fp32") return {torch::kFloat, "fp32"};
  if (flag == "bf16") return {torch::kBFloat16, "bf16"};
  if (flag == "fp16") return {torch::kHalf, "fp16"};
  if (zero::cpu_has_bfloat16())
    return {torch::kBFloat16, "bf16 (auto: this CPU has bf16 instructions)"};
  return {torch::kFloat, "fp32 (auto: this CPU has no bf16 instructions)"};
}

/// Linear warm-up, then a cosine down to min_lr at the last step. `step` counts from 1.
double learning_rate(const Flags& flags, std::int64_t step) {
  if (step <= flags.warmup)
    return flags.lr * static_cast<double>(step) / static_cast<double>(flags.warmup);
  const double done = static_cast<double>(step - flags.warmup) /
                      static_cast<double>(std::max<std::int64_t>(1, flags.steps - flags.warmup));
  return flags.min_lr +
         0.5 * (flags.lr - flags.min_lr) * (1.0 + std::cos(std::numbers::pi * std::min(done, 1.0)));
}

zero::Options optimizer_options(const Flags& flags, const zero::AdamWOptions& adamw) {
  zero::Options options;
  options.stage(flags.stage).clip_norm(flags.clip);
  if (flags.wire == "fp32") options.wire(torch::kFloat);
  if (flags.wire == "bf16") options.wire(torch::kBFloat16);
  const auto is_no_matrix = [](const std::string&, const torch::Tensor& tensor) {
    return tensor.dim() < 2;
  };
  options.groups({{is_no_matrix, zero::AdamWOptions(adamw).weight_decay(0.0)}});
  return options;
}

/// The rank's share of one step: micro-batch i of the global batch belongs to rank i mod size.
void backward_of(zero::Optimizer& optimizer, MiniGpt& model, const Windows& windows,
                 const std::vector<std::int64_t>& samples, std::int64_t micro_batch,
                 const zero::Collective& comm) {
  for (std::int64_t begin = comm.rank() * micro_batch;
       begin < static_cast<std::int64_t>(samples.size()); begin += comm.size() * micro_batch) {
    const std::vector<std::int64_t> micro(samples.begin() + begin,
                                          samples.begin() + begin + micro_batch);
    optimizer.backward(model->loss(batch_of(windows, micro)));
  }
}

std::string introduction(const Flags& flags, const zero::Optimizer& optimizer,
                         const Precision& precision, const zero::Collective& comm) {
  std::int64_t elements = 0;
  for (const auto& parameter : optimizer.layout().parameters()) {
    if (parameter.alias_of < 0) elements += parameter.numel();
  }
  char text[256];
  std::snprintf(text, sizeof text,
                "minigpt: %.2f M parameters on %d rank%s (%s), stage %d, %s, %d thread%s a rank",
                static_cast<double>(elements) / 1e6, comm.size(), comm.size() == 1 ? "" : "s",
                std::string(comm.backend()).c_str(), flags.stage, precision.explanation.c_str(),
                flags.threads, flags.threads == 1 ? "" : "s");
  return text;
}

class Training {
 public:
  Training(const Flags& flags, const std::shared_ptr<zero::Collective>& comm)
      : flags_(flags),
        comm_(comm),
        is_speaker_(comm->rank() == 0),
        data_(read_text(flags.data, flags.context)),
        precision_(precision_of(flags.precision)),
        model_(make_model(flags, precision_.dtype)),
        adamw_(zero::AdamWOptions(flags.lr)
                   .betas({flags.beta1, flags.beta2})
                   .weight_decay(flags.weight_decay)),
        optimizer_(*model_, adamw_, optimizer_options(flags, adamw_), comm),
        log_(is_speaker_ ? flags.log : std::string()),
        progress_(last_step()) {}

  void run() {
    say(introduction(flags_, optimizer_, precision_, *comm_));
    if (flags_.eval_every > 0) evaluate_and_say(0);
    SampleOrder order(data_.training.count(), flags_.seed);
    for (std::int64_t step = 1; step <= last_step(); ++step) {
      one_step(step, order.at((step - 1) * flags_.batch, flags_.batch));
      const bool is_due =
          flags_.eval_every > 0 && (step % flags_.eval_every == 0 || step == last_step());
      if (is_due) evaluate_and_say(step);
    }
    optimizer_.shutdown();
    comm_->shutdown();  // the others need not wait while one rank writes
    if (is_speaker_ && flags_.sample > 0) {
      say("sample: " + printable(generate(model_, flags_.sample, flags_.context, flags_.seed)));
    }
  }

 private:
  static MiniGpt make_model(const Flags& flags, torch::Dtype dtype) {
    torch::manual_seed(flags.seed);
    MiniGpt model(ModelOptions{flags.layers, flags.width, flags.heads, flags.context});
    model->to(dtype);
    return model;
  }

  std::int64_t last_step() const {
    return flags_.stop_after > 0 ? std::min(flags_.stop_after, flags_.steps) : flags_.steps;
  }

  void one_step(std::int64_t step, const std::vector<std::int64_t>& samples) {
    const auto start = std::chrono::steady_clock::now();
    const double lr = learning_rate(flags_, optimizer_.steps_applied() + 1);
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(lr);
    backward_of(optimizer_, model_, data_.training, samples, flags_.micro_batch, *comm_);
    const zero::StepResult result = optimizer_.step();
    if (!is_speaker_) return;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double tokens_per_second = static_cast<double>(flags_.batch * flags_.context) / seconds;
    log_.step(
        {step, lr, seconds, tokens_per_second, result, flags_.log_samples ? &samples : nullptr});
    progress_.show(step, result.loss, tokens_per_second, result.grad_norm,
                   optimizer_.memory().total());
    if (!result.applied) say("step " + std::to_string(step) + " was skipped: " + result.reason);
  }

  void evaluate_and_say(std::int64_t step) {
    const double loss = evaluate(model_, data_.validation, *comm_);
    if (!is_speaker_) return;
    log_.evaluation(step, loss);
    char text[96];
    std::snprintf(text, sizeof text, "step %lld: validation loss %.4f nats per byte",
                  static_cast<long long>(step), loss);
    say(text);
  }

  void say(const std::string& line) {
    if (is_speaker_) progress_.say(line);
  }

  const Flags& flags_;
  std::shared_ptr<zero::Collective> comm_;
  bool is_speaker_;
  TextData data_;
  Precision precision_;
  MiniGpt model_;
  zero::AdamWOptions adamw_;
  zero::Optimizer optimizer_;
  JsonLog log_;
  Progress progress_;
};

}  // namespace

void train(const Flags& flags, const std::shared_ptr<zero::Collective>& comm) {
  at::set_num_threads(flags.threads);
  Training(flags, comm).run();
}

}  // namespace minigpt
