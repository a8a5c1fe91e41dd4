#pragma once

/// A training of one fixed global batch, on any number of ranks.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/memory_store.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/ranks.h"

namespace zero::testing {

inline constexpr std::int64_t kElasticSteps = 50;
inline constexpr std::int64_t kElasticMicros = 8;

/// A small MiniGPT: token embedding tied to the head, blocks of attention and MLP. 59,000
/// parameters in matrices of up to 9216 elements, so that one large bucket reaches seven ranks.
struct ElasticModelImpl : torch::nn::Module {
  static constexpr std::int64_t kWidth = 48, kHeads = 2, kTime = 8, kVocabulary = 64;

  struct BlockImpl : torch::nn::Module {
    BlockImpl() {
      using torch::nn::LayerNorm, torch::nn::LayerNormOptions, torch::nn::Linear;
      ln1 = register_module("ln1", LayerNorm(LayerNormOptions({kWidth})));
      qkv = register_module("qkv", Linear(kWidth, 3 * kWidth));
      proj = register_module("proj", Linear(kWidth, kWidth));
      ln2 = register_module("ln2", LayerNorm(LayerNormOptions({kWidth})));
      fc = register_module("fc", Linear(kWidth, 4 * kWidth));
      fc_out = register_module("fc_out", Linear(4 * kWidth, kWidth));
    }

    /// x: [time, width].
    torch::Tensor forward(torch::Tensor x) {
      const auto heads =
          qkv(ln1(x)).view({kTime, 3, kHeads, kWidth / kHeads}).permute({1, 2, 0, 3}).unsqueeze(1);
      const auto attended = at::scaled_dot_product_attention(
          heads[0], heads[1], heads[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
      x = x + proj(attended.squeeze(0).transpose(0, 1).reshape({kTime, kWidth}));
      return x + fc_out(torch::gelu(fc(ln2(x))));
    }

    torch::nn::LayerNorm ln1{nullptr}, ln2{nullptr};
    torch::nn::Linear qkv{nullptr}, proj{nullptr}, fc{nullptr}, fc_out{nullptr};
  };
  TORCH_MODULE(Block);

  explicit ElasticModelImpl(torch::Dtype dtype) {
    static std::mutex mutex;  // the default generator belongs to the process
    const std::lock_guard lock(mutex);
    torch::manual_seed(11);
    tokens = register_parameter("tokens", 0.1 * torch::randn({kVocabulary, kWidth}));
    positions = register_parameter("positions", 0.1 * torch::randn({kTime, kWidth}));
    for (int i = 0; i < 2; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    to(dtype);
  }

  /// text: int64 [time + 1].
  torch::Tensor loss(const torch::Tensor& text) {
    auto x = torch::embedding(tokens, text.narrow(0, 0, kTime)) + positions;
    for (Block& block : blocks) x = block(x);
    // float64: sums of a few float32 losses would be exact in any order.
    const auto logits = torch::linear(x, tokens).to(torch::kDouble);
    return torch::nn::functional::cross_entropy(logits, text.narrow(0, 1, kTime));
  }

  torch::Tensor tokens, positions;
  std::vector<Block> blocks;
};
TORCH_MODULE(ElasticModel);

/// Micro-batch `index` of the global batch of `step`: a text with a rule that can be learnt.
inline torch::Tensor elastic_text(std::int64_t step, std::int64_t index) {
  std::vector<std::int64_t> text = {(step * 29 + index * 13) % ElasticModelImpl::kVocabulary};
  while (text.size() <= ElasticModelImpl::kTime)
    text.push_back((text.back() * 5 + 3) % ElasticModelImpl::kVocabulary);
  return torch::tensor(text, torch::kLong);
}

/// What decides the bits, together with the model and the data.
enum class Precision { kFp32, kFp32Bf16Wire, kBf16, kFp16 };

inline std::string name_of(Precision precision) {
  constexpr const char* kNames[] = {"fp32", "fp32_bf16_wire", "bf16", "fp16"};
  return kNames[static_cast<int>(precision)];
}

/// What must not.
struct Place {
  int world_size = 1;
  int stage = 0;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  bool defer = false;
  std::int64_t shard_alignment = 4096;

  std::string text() const {
    return std::to_string(world_size) + " ranks, stage " + std::to_string(stage) +
           ", buckets of up to " + std::to_string(bucket_bytes) + " bytes, reduction " +
           (defer ? "after backward" : "during backward");
  }
};

inline Options elastic_options(const Place& place, Precision precision) {
  Options options;
  options.stage(place.stage).bucket_bytes(place.bucket_bytes).defer_reduction(place.defer);
  options.first_bucket_bytes(place.bucket_bytes / 2).clip_norm(1.0).checksum_every(10);
  options.shard_alignment(place.shard_alignment);
  if (precision == Precision::kFp32Bf16Wire) options.wire(torch::kBFloat16);
  options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                   AdamWOptions(3e-3).weight_decay(0.0)}});
  LossScalerOptions scaler;
  scaler.growth_interval = 7;  // skipped steps, now and then
  return options.loss_scaler(scaler);
}

/// Everything that must be equal. `history` has a line for each step.
struct Trained {
  std::vector<std::string> history;
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> state;
  std::map<std::string, std::string> parameters;  // as bytes
  std::int64_t applied = 0;
};

/// Where the first difference of losses, masters, moments or parameters is, or empty.
inline std::string first_difference(const Trained& expected, const Trained& actual) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    if (i >= actual.losses.size() || expected.losses[i] != actual.losses[i])
      return "the loss of step " + std::to_string(i);
  }
  if (actual.losses.size() != expected.losses.size()) return "there are more steps";
  for (const auto& [name, values] : expected.state) {
    const auto found = actual.state.find(name);
    if (found == actual.state.end() || found->second.size() != values.size())
      return name + " has another size";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::memcmp(&values[i], &found->second[i], sizeof(float)) != 0)
        return name + " differs at element " + std::to_string(i);
    }
  }
  if (actual.parameters != expected.parameters) return "parameters differ where masters do not";
  return actual.state.size() == expected.state.size() ? "" : "there is more state";
}

/// The first two lines that differ, or empty.
inline std::string first_difference(const std::vector<std::string>& expected,
                                    const std::vector<std::string>& actual) {
  for (std::size_t i = 0; i < std::max(expected.size(), actual.size()); ++i) {
    const std::string a = i < expected.size() ? expected[i] : "nothing";
    const std::string b = i < actual.size() ? actual[i] : "nothing";
    if (a != b) return a + "; but " + b;
  }
  return "";
}

/// One rank of a training.
class ElasticJob {
 public:
  ElasticJob(std::shared_ptr<Collective> comm, const Place& place, Precision precision)
      : comm_(std::move(comm)),
        model_(precision == Precision::kBf16   ? torch::kBFloat16
               : precision == Precision::kFp16 ? torch::kHalf
                                               : torch::kFloat) {
    at::set_num_threads(1);  // of this thread: ranks share the cores
    optimizer_.emplace(*model_, AdamWOptions(3e-3).weight_decay(0.1),
                       elastic_options(place, precision), comm_);
  }

  Optimizer& optimizer() { return *optimizer_; }

  /// Until `last` steps are taken. Rank 0 writes the history.
  void train(std::int64_t last, Trained& trained) {
    for (std::int64_t step = optimizer_->steps_taken(); step < last; ++step) {
      for (std::int64_t i = comm_->rank(); i < kElasticMicros; i += comm_->size())
        optimizer_->backward(model_->loss(elastic_text(step, i)));
      const StepResult result = optimizer_->step();
      if (comm_->rank() != 0) continue;
      trained.applied += result.applied ? 1 : 0;
      trained.losses.push_back(result.loss);
      trained.history.push_back(
          "step " + std::to_string(step) + ": loss " + number_text(result.loss) + ", norm " +
          number_text(result.grad_norm) + ", clip " + number_text(result.clip_factor) + ", scale " +
          number_text(result.next_loss_scale) + result.reason);
    }
  }

  /// This rank's shards of masters and moments, from rank 0 the parameters too. Any number of ranks
  /// at once, under `mutex`.
  void collect(Trained& trained, std::mutex& mutex) {
    const std::lock_guard lock(mutex);
    constexpr std::pair<StateKind, const char*> kKinds[] = {{StateKind::kMaster, "master "},
                                                            {StateKind::kExpAvg, "exp_avg "},
                                                            {StateKind::kExpAvgSq, "exp_avg_sq "}};
    for (const auto& [kind, prefix] : kKinds) {
      optimizer_->for_each_shard(kind, [&, prefix = prefix](const ShardView& view) {
        auto& values = trained.state[prefix + view.name];
        const auto& spec =
            optimizer_->layout().parameters()[static_cast<std::size_t>(view.parameter)];
        values.resize(static_cast<std::size_t>(spec.numel()), std::nanf(""));
        std::copy(view.values.begin(), view.values.end(), values.begin() + view.begin);
      });
    }
    for (const auto& item : model_->named_parameters()) {
      const torch::Tensor value = item.value().detach();
      const std::string bytes(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
      const auto [found, is_new] = trained.parameters.emplace(item.key(), bytes);
      EXPECT_EQ(found->second == bytes, true) << item.key() << " on rank " << comm_->rank();
    }
  }

 private:
  std::shared_ptr<Collective> comm_;
  ElasticModel model_;
  std::optional<Optimizer> optimizer_;
};

/// From the first step, or the newest in `from`, to `last`; saved into `into`. Null: neither.
inline void train_elastic(const Place& place, Precision precision, std::int64_t last,
                          Trained& trained, checkpoint::Store* from = nullptr,
                          std::int64_t from_step = 0, checkpoint::Store* into = nullptr) {
  std::mutex mutex;
  trained.state.clear();
  trained.parameters.clear();
  on_ranks(place.world_size, [&](const std::shared_ptr<Collective>& comm) {
    ElasticJob job(comm, place, precision);
    if (from != nullptr)
      job.optimizer().load(*from, from_step, LoadOptions().reshard_on_load(true));
    job.train(last, trained);
    if (into != nullptr) job.optimizer().save(*into);
    job.collect(trained, mutex);
    job.optimizer().shutdown();
  });
}

/// One rank that does everything, never interrupted. Calculated once.
inline const Trained& uninterrupted(Precision precision) {
  static std::map<Precision, Trained> all;
  Trained& trained = all[precision];
  if (trained.history.empty()) train_elastic({}, precision, kElasticSteps, trained);
  return trained;
}

}  // namespace zero::testing
