#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "benchmarks/common/program.h"
#include "disk.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"

namespace zero::benchmark {
namespace {

/// At least 70 % of the disk's speed.
constexpr double kLimit = 1 / 0.7;
constexpr std::int64_t kParameterBytes = std::int64_t{16} << 20;

/// One rank whose moments lie in a file.
class Trainer {
 public:
  Trainer(const Offload& offload, std::int64_t state_bytes) {
    at::set_num_threads(1);
    for (std::int64_t bytes = 0; 2 * bytes < state_bytes; bytes += kParameterBytes) {
      parameters_.push_back({"parameter" + std::to_string(parameters_.size()),
                             at::ones({kParameterBytes / 4}).set_requires_grad(true)});
    }
    optimizer_.emplace(parameters_, std::vector<NamedTensor>(), AdamWOptions(1e-3),
                       Options().stage(2).offload(offload), make_self());
  }

  void backward() {
    at::Tensor loss = parameters_.front().tensor.sum();
    for (std::size_t i = 1; i < parameters_.size(); ++i)
      loss = at::add(loss, parameters_[i].tensor.sum());
    optimizer_->backward(loss);
    optimizer_->gather("parameter0", StateKind::kMaster);  // waits for the reductions
  }
  void step() { optimizer_->step(); }
  std::int64_t file_bytes() const { return optimizer_->memory().offloaded; }

 private:
  std::vector<NamedTensor> parameters_;
  std::optional<Optimizer> optimizer_;
};

Comparison step_on_disk(const std::string& folder, std::int64_t state_bytes) {
  const OffloadSize size;
  const auto trainer = std::make_shared<Trainer>(Offload::kDisk(folder), state_bytes);
  trainer->backward();
  trainer->step();  // the first one has nothing to read
  const auto disk = std::make_shared<Disk>(folder, trainer->file_bytes(), size.block_elements * 8,
                                           static_cast<int>(size.threads));
  Comparison comparison{
      .id = "offload.step.fp32",
      .what = "step() with moments of " + std::to_string(state_bytes >> 20) +
              " MiB on a disk against reading and writing as much of it in the same blocks",
      .limit = kLimit,
      .ours = {},
      .plain = {}};
  comparison.ours.prepare = [trainer] { trainer->backward(); };
  comparison.ours.timed = [trainer] { trainer->step(); };
  comparison.plain.timed = [disk] { disk->walk(); };
  return comparison;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Compares a step whose state lies on a disk with that disk alone.\n"
      "Example: offload_benchmark --directory /nvme --mib 1024 --output offload.json"};
  RunFlags flags{5, ""};
  flags.add_to(app);
  std::string directory = ".";
  std::int64_t mib = 1024;
  app.add_option("--directory", directory, "on the disk to measure")->capture_default_str();
  app.add_option("--mib", mib, "of state")->check(CLI::Range(32, 1 << 20))->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Figures figures;
  figures.run({step_on_disk(directory, mib << 20)}, flags.rounds);
  figures.write(flags.output);
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("offload_benchmark", argc, argv, zero::benchmark::run);
}
