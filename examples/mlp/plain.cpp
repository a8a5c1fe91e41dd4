/// Tells the points of two spirals apart. README.md says how plain.cpp became sharded.cpp.

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

constexpr std::int64_t kPoints = 4096;
constexpr std::int64_t kMicroBatch = 64;   // points of one backward call
constexpr std::int64_t kMicroBatches = 4;  // of one step

struct Points {
  torch::Tensor places;   // [kPoints, 2]
  torch::Tensor classes;  // int64 [kPoints]
};

/// Two spirals, one around the other: no line separates them.
Points make_spirals() {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/5);
  const auto classes = torch::randint(2, {kPoints}, generator);
  const auto turn = torch::rand({kPoints}, generator) * 3 * std::numbers::pi;
  const auto angle = turn + classes * std::numbers::pi;
  const auto noise = torch::randn({kPoints, 2}, generator) * 0.02;
  const auto places = torch::stack({angle.cos(), angle.sin()}, 1) * (turn / 10).unsqueeze(1);
  return {places + noise, classes};
}

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    first = register_module("first", torch::nn::Linear(2, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    last = register_module("last", torch::nn::Linear(64, 2));
  }
  torch::Tensor forward(const torch::Tensor& places) {
    return last(torch::tanh(second(torch::tanh(first(places)))));
  }
  torch::Tensor loss(const Points& batch) {
    return torch::nn::functional::cross_entropy(forward(batch.places), batch.classes);
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Mlp);

Points micro_batch(const Points& points, std::int64_t step, std::int64_t i) {
  const std::int64_t begin = (step * kMicroBatches + i) * kMicroBatch % kPoints;
  return {points.places.narrow(0, begin, kMicroBatch),
          points.classes.narrow(0, begin, kMicroBatch)};
}

double accuracy(Mlp& model, const Points& points) {
  const torch::NoGradGuard no_gradients;
  const auto chosen = model->forward(points.places).argmax(1);
  return chosen.eq(points.classes).to(torch::kDouble).mean().item<double>();
}

void report(std::int64_t step, double loss) {
  if (step % 100 == 0) std::printf("step %ld loss %.6f\n", static_cast<long>(step), loss);
}

void train(std::int64_t steps) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const Points points = make_spirals();
  Mlp model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  torch::optim::StepLR schedule(optimizer, 500, 0.5);
  for (std::int64_t step = 0; step < steps; ++step) {
    double mean = 0;
    optimizer.zero_grad();
    for (std::int64_t i = 0; i < kMicroBatches; ++i) {
      const auto loss = model->loss(micro_batch(points, step, i)) / kMicroBatches;
      loss.backward();
      mean += loss.item<double>();
    }
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    report(step, mean);
  }
  std::printf("accuracy %.3f\n", accuracy(model, points));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
    if (steps < 1) throw std::invalid_argument(std::string("steps must be 1 or more: ") + argv[1]);
    train(steps);
  } catch (const c10::Error& error) {  // what() of LibTorch's own has a backtrace
    std::fprintf(stderr, "mlp: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mlp: %s\n", error.what());
    return 1;
  }
}
