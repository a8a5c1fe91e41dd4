#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "benchmarks/common/program.h"
#include "examples/minigpt/model.h"

namespace zero::benchmark {
namespace {

/// LibTorch's CPU memory that this thread has taken and not given back.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live = 0;
};

struct Workload {
  minigpt::ModelOptions options;
  std::int64_t sequences = 4;
};

class Trained {
 public:
  Trained(const Workload& workload, bool recompute) {
    minigpt::ModelOptions options = workload.options;
    options.recompute = recompute;
    model_ = minigpt::MiniGpt(options);
    windows_ = torch::randint(256, {workload.sequences, options.context + 1}, torch::kLong);
  }
  torch::Tensor forward() { return model_->loss(windows_); }
  void forward_and_backward() { forward().backward(); }

  std::int64_t bytes_kept() {
    const auto bytes = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, bytes);
    const torch::Tensor loss = forward();
    return bytes->live;
  }

 private:
  minigpt::MiniGpt model_{nullptr};
  torch::Tensor windows_;
};

int run(int argc, char** argv) {
  CLI::App app{
      "Forward and backward with recomputed activations against kept ones.\n"
      "Example: recompute_benchmark --layers 24 --rounds 5"};
  RunFlags flags{5, ""};
  flags.add_to(app);
  Workload workload{{.layers = 24}};
  app.add_option("--layers", workload.options.layers)->capture_default_str();
  app.add_option("--width", workload.options.width)->capture_default_str();
  app.add_option("--context", workload.options.context)->capture_default_str();
  app.add_option("--sequences", workload.sequences)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  at::set_num_threads(1);
  Trained ours(workload, true), plain(workload, false);
  Figures figures;
  figures.run({{"recompute.time",
                "forward and backward, recomputed against kept",
                0,
                {{}, [&] { ours.forward_and_backward(); }, {}},
                {{}, [&] { plain.forward_and_backward(); }, {}}}},
              flags.rounds);
  const std::int64_t kept = plain.bytes_kept(), recomputed = ours.bytes_kept();
  figures.add({{"id", "recompute.kept"},
               {"what", "bytes between forward and backward, recomputed against kept"},
               {"value", static_cast<double>(recomputed) / static_cast<double>(kept)},
               {"limit", nullptr},
               {"pass", true},
               {"recomputed_bytes", recomputed},
               {"kept_bytes", kept}});
  figures.write(flags.output);
  return figures.exit_code();
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  return zero::benchmark::run_program("recompute_benchmark", argc, argv, zero::benchmark::run);
}
