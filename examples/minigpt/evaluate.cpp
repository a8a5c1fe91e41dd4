#include "examples/minigpt/evaluate.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace minigpt {
namespace {

constexpr std::int64_t kEvaluationBatch = 16;

/// Without dropout and gradients, while one lives.
class Evaluating {
 public:
  explicit Evaluating(MiniGpt& model) : model_(model) { model_->eval(); }
  ~Evaluating() { model_->train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  MiniGpt& model_;
  const torch::NoGradGuard no_grad_;
};

/// Rank r computed item i * size + r; returns them all in order.
std::vector<double> gather_in_order(const std::vector<double>& mine, zero::Collective& comm) {
  const std::size_t each = mine.size();
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int64_t> bits(each), all(each * ranks);
  for (std::size_t i = 0; i < each; ++i) bits[i] = std::bit_cast<std::int64_t>(mine[i]);
  comm.all_gather({bits.data(), static_cast<std::int64_t>(each), zero::DType::kInt64},
                  {all.data(), static_cast<std::int64_t>(all.size()), zero::DType::kInt64},
                  "validation losses")
      ->wait();
  std::vector<double> ordered(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ordered[i] = std::bit_cast<double>(all[(i % ranks) * each + i / ranks]);
  }
  return ordered;
}

}  // namespace

torch::Device device_of(MiniGpt& model) {
  return model->parameters().front().device();
}

torch::Tensor batch_of(const Windows& windows, std::span<const std::int64_t> indices,
                       torch::Device device) {
  const auto rows = static_cast<std::int64_t>(indices.size());
  return torch::tensor(windows.bytes(indices), torch::kLong).view({rows, -1}).to(device);
}

double evaluate(MiniGpt& model, const Windows& windows, zero::Collective& comm) {
  const Evaluating evaluating(model);
  const std::int64_t batches = (windows.count() + kEvaluationBatch - 1) / kEvaluationBatch;
  const std::int64_t per_rank = (batches + comm.size() - 1) / comm.size();
  std::vector<double> sums(static_cast<std::size_t>(per_rank), 0.0);
  for (std::int64_t i = 0; i < per_rank; ++i) {
    const std::int64_t batch = i * comm.size() + comm.rank();
    if (batch >= batches) continue;
    const std::int64_t begin = batch * kEvaluationBatch;
    std::vector<std::int64_t> indices(
        static_cast<std::size_t>(std::min(kEvaluationBatch, windows.count() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    sums[static_cast<std::size_t>(i)] =
        model->loss(batch_of(windows, indices, device_of(model))).item<double>() *
        static_cast<double>(indices.size());
  }
  const std::vector<double> ordered = gather_in_order(sums, comm);
  return std::accumulate(ordered.begin(), ordered.end(), 0.0) /
         static_cast<double>(windows.count());
}

std::string generate(MiniGpt& model, std::int64_t count, std::int64_t context, std::uint64_t seed) {
  const Evaluating evaluating(model);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<std::int64_t> tokens{'\n'};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t length = std::min(tokens.size(), static_cast<std::size_t>(context));
    const std::vector<std::int64_t> recent(tokens.end() - static_cast<std::ptrdiff_t>(length),
                                           tokens.end());
    const auto tokens_in = torch::tensor(recent, torch::kLong).unsqueeze(0).to(device_of(model));
    const auto logits = model->forward(tokens_in).to(torch::kCPU);
    const auto last =
        logits.select(1, static_cast<std::int64_t>(length) - 1).to(torch::kFloat).squeeze(0);
    if (!torch::isfinite(last).all().item<bool>()) {
      throw std::runtime_error(
          "--sample: the model's output is not finite, training has diverged; lower --lr");
    }
    tokens.push_back(torch::multinomial(torch::softmax(last / 0.8, 0), 1, false, generator)
                         .item<std::int64_t>());
  }
  return {tokens.begin() + 1, tokens.end()};
}

}  // namespace minigpt
