/// A training for memory_limit_test: limited_training memory|FOLDER free|limited
///
/// "limited": the process may hold what it holds with its model, what the optimizer needs for
/// gradients (accumulator, staging), and a quarter of the optimizer's state. Gradients on their
/// way, activations, threads and what the library needs besides must fit into that quarter.
/// Prints the digest of parameters and state. Exits with 4 where there was no memory.

#include <sys/resource.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <new>
#include <string>

#include "libzero/base/checksum.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"

namespace {

constexpr std::int64_t kWidth = 1024;
constexpr int kLayers = 32;
constexpr std::int64_t kSteps = 3;
constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;

/// What RLIMIT_DATA counts, in bytes.
std::int64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == "VmData:") status >> kib;
  }
  return kib * 1024;
}

torch::Tensor loss_of(torch::nn::Sequential& model, std::int64_t step) {
  const auto x = torch::sin(torch::arange(4 * kWidth, torch::kFloat) + static_cast<float>(step));
  return model->forward(x.reshape({4, kWidth})).square().mean();
}

/// What LibTorch and its libraries keep from their first forward and backward on.
void warm_up() {
  torch::nn::Linear layer(torch::nn::LinearOptions(kWidth, kWidth).bias(false));
  for (int i = 0; i < 2; ++i) layer->forward(torch::ones({4, kWidth})).sum().backward();
  layer->zero_grad();
}

void limit(std::int64_t parameters) {
  const std::int64_t state = 2 * 4 * parameters;
  const std::int64_t accumulator = 4 * parameters;
  const std::int64_t block_sums = parameters / 64 * 8;
  const std::int64_t left = state / 4;
  const auto most =
      static_cast<rlim_t>(data_bytes() + accumulator + block_sums + kBucketBytes + left);
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) throw std::runtime_error("setrlimit");
  std::printf("state %lld left %lld\n", static_cast<long long>(state),
              static_cast<long long>(left));
}

void train(const std::string& place, bool limited) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int i = 0; i < kLayers; ++i)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
  warm_up();
  if (limited) limit(kLayers * kWidth * kWidth);

  zero::Options options;
  options.stage(2).bucket_bytes(kBucketBytes).first_bucket_bytes(kBucketBytes);
  if (place != "memory") options.offload(zero::Offload::kDisk(place));
  zero::Optimizer optimizer(*model, zero::AdamWOptions(1e-3), options, zero::make_self());
  for (std::int64_t step = 0; step < kSteps; ++step) {
    optimizer.backward(loss_of(model, step));
    optimizer.step();
  }
  for (const auto& item : model->named_parameters()) {
    for (const auto kind :
         {zero::StateKind::kMaster, zero::StateKind::kExpAvg, zero::StateKind::kExpAvgSq}) {
      const auto whole = optimizer.gather(item.key(), kind);
      const auto* const bytes = static_cast<const std::byte*>(whole.const_data_ptr());
      std::printf("%016llx",
                  static_cast<unsigned long long>(zero::checksum({bytes, whole.nbytes()})));
    }
  }
  std::printf("\n");
  optimizer.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    train(argv[1], std::string(argv[2]) == "limited");
  } catch (const std::bad_alloc&) {
    return 4;
  } catch (const c10::Error& error) {  // LibTorch's own word for it
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return std::string(error.what()).find("allocate memory") != std::string::npos ? 4 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
