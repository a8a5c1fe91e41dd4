#include "examples/resnet_cifar10/evaluate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace resnet {
namespace {

constexpr std::int64_t kEvaluationBatch = 100;

/// With BatchNorm's running statistics and without gradients, while one lives.
class Evaluating {
 public:
  explicit Evaluating(ResNet18& model) : model_(model) { model_->eval(); }
  ~Evaluating() { model_->train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  ResNet18& model_;
  const torch::NoGradGuard no_grad_;
};

/// Not means: parts of different sizes are added.
Score sums_over(ResNet18& model, const Batch& batch) {
  const auto logits = model->forward(batch.images);
  const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  const auto loss = torch::nn::functional::cross_entropy(logits, batch.labels, options);
  return {loss.item<double>(), logits.argmax(1).eq(batch.labels).sum().item<double>()};
}

}  // namespace

Score evaluate(ResNet18& model, const zero::CifarFiles& files, zero::Collective& comm) {
  const Evaluating evaluating(model);
  const std::int64_t begin = files.count() * comm.rank() / comm.size();
  const std::int64_t end = files.count() * (comm.rank() + 1) / comm.size();
  Score sums;
  for (std::int64_t first = begin; first < end; first += kEvaluationBatch) {
    std::vector<std::int64_t> samples(
        static_cast<std::size_t>(std::min(kEvaluationBatch, end - first)));
    std::iota(samples.begin(), samples.end(), first);
    const Score batch = sums_over(model, plain(files, samples));
    sums.loss += batch.loss;
    sums.accuracy += batch.accuracy;
  }
  // A rank without images weighs nothing, be its mean NaN.
  const auto images = static_cast<double>(end - begin);
  const std::array mine = {sums.loss / images, sums.accuracy / images};
  const std::vector<double> means = zero::reduce_mean(mine, images, comm);
  return {means[0], means[1]};
}

}  // namespace resnet
