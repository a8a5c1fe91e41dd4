/// Trains the tests' toy model on the ranks it finds itself among and prints what must be equal on
/// every number of them: one line a step with loss and norm in hexadecimal, and at the end a digest
/// of all parameters. Rank 0 speaks.
///
///   toy_trainer STAGE DTYPE WIRE STEPS [hang=R|die=R|overflow=S]   DTYPE: fp32 bf16 fp16; WIRE: auto bf16
///
/// overflow=S: the last micro-batch of step S (from 0) has an infinite gradient in 'gain'.
/// hang=R: rank R stops taking part after step 3. die=R: rank R announces its process id after step
/// 3 and goes on for ever.

#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "libzero/base/fnv.h"
#include "libzero/zero.h"
#include "tests/optim/toy_model.h"

namespace {

constexpr std::int64_t kMicros = 4;

torch::Dtype dtype_of(const std::string& name) {
  if (name == "bf16") return torch::kBFloat16;
  if (name == "fp16") return torch::kHalf;
  return torch::kFloat;
}

std::uint64_t digest_of(const zero::testing::ToyModel& model) {
  zero::Fnv1a hash;
  for (const auto& parameter : model->named_parameters()) {
    const torch::Tensor value = parameter.value().detach().contiguous();
    hash.add(std::string_view(static_cast<const char*>(value.data_ptr()), value.nbytes()));
  }
  return hash.value();
}

struct Arguments {
  int stage;
  std::string dtype, wire;
  std::int64_t steps;
  int hang = -1, die = -1;
  std::int64_t overflow = -1;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments{std::stoi(argv[1]), argv[2], argv[3], std::stoll(argv[4])};
  for (int i = 5; i < argc; ++i) {
    if (std::strncmp(argv[i], "hang=", 5) == 0) arguments.hang = std::stoi(argv[i] + 5);
    if (std::strncmp(argv[i], "die=", 4) == 0) arguments.die = std::stoi(argv[i] + 4);
    if (std::strncmp(argv[i], "overflow=", 9) == 0) arguments.overflow = std::stoll(argv[i] + 9);
  }
  return arguments;
}

void train(const Arguments& arguments, const std::shared_ptr<zero::Collective>& comm) {
  zero::testing::ToyModel model(dtype_of(arguments.dtype));
  zero::Options options = zero::testing::toy_options(arguments.stage);
  if (arguments.wire == "bf16") options.wire(torch::kBFloat16);
  zero::Optimizer optimizer(*model, zero::AdamWOptions(1e-2).weight_decay(0.1), options, comm);
  const std::int64_t micros =
      arguments.die >= 0 ? comm->size() : kMicros;  // any number of ranks can lose one
  for (std::int64_t step = 0; arguments.die >= 0 || step < arguments.steps; ++step) {
    for (std::int64_t i = comm->rank(); i < micros; i += comm->size()) {
      auto loss = model->loss(zero::testing::toy_batch(step, i));
      if (step == arguments.overflow && i == micros - 1) {
        loss = loss + model->gain.to(torch::kFloat) * 1e30 * 1e10;
      }
      optimizer.backward(loss);
    }
    const zero::StepResult result = optimizer.step();
    if (comm->rank() == 0 && arguments.die < 0) {
      std::printf("step %lld loss %a norm %a applied %d scale %g %s\n",
                  static_cast<long long>(step), result.loss, result.grad_norm,
                  result.applied ? 1 : 0, result.next_loss_scale,
                  result.overflow_parameter.c_str());
    }
    if (step == 3 && comm->rank() == arguments.hang) {
      while (true) pause();
    }
    if (step == 3 && comm->rank() == arguments.die)
      std::printf("pid %d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
  }
  optimizer.shutdown();
  if (comm->rank() == 0)
    std::printf("digest %016llx\n", static_cast<unsigned long long>(digest_of(model)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: toy_trainer STAGE DTYPE WIRE STEPS [hang=R|die=R|overflow=S]\n");
    return 2;
  }
  at::set_num_threads(1);
  try {
    const auto comm = zero::connect();
    train(parse(argc, argv), comm);
    comm->shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "toy_trainer: %s\n", error.what());
    return 3;
  }
}
