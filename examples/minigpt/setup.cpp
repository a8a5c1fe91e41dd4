#include "examples/minigpt/setup.h"

#include <algorithm>

namespace minigpt {
namespace {

zero::RuleOptions rule_with(const Flags& flags, double weight_decay) {
  if (flags.optimizer == "sgd")
    return zero::SGDOptions(flags.lr).momentum(flags.momentum).weight_decay(weight_decay);
  return zero::AdamWOptions(flags.lr).betas({flags.beta1, flags.beta2}).weight_decay(weight_decay);
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

}  // namespace

Precision precision_of(const Flags& flags, torch::Device device) {
  if (flags.precision == "fp32")
    return {torch::kFloat, flags.autocast != "off" ? "fp32, products in bf16" : "fp32"};
  if (flags.precision == "bf16") return {torch::kBFloat16, "bf16"};
  if (flags.precision == "fp16") return {torch::kHalf, "fp16"};
  if (!device.is_cpu()) return {torch::kBFloat16, "bf16 (auto: on a GPU)"};
  return {torch::kFloat, "fp32 (auto: on a CPU, where matrices of this size are slower in bf16)"};
}

zero::RuleOptions rule_of(const Flags& flags) {
  return rule_with(flags, flags.weight_decay);
}

std::set<std::string> names_of_options_from_flags(const Flags& flags) {
  if (flags.optimizer == "sgd") return {"weight_decay", "momentum"};
  return {"weight_decay", "beta1", "beta2"};
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
  options.groups({{is_no_matrix, rule_with(flags, 0.0)}});
  return options;
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

}  // namespace minigpt
