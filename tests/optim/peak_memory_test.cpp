#include <gtest/gtest.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/optim/memory_model.h"
#include "tests/optim/ranks.h"

// Peaks are taken from processes of their own: this program, started again with --measure.

namespace zero {
namespace {

constexpr int kWorldSize = 4;
constexpr std::int64_t kParameters = 16;
constexpr std::int64_t kNumel = std::int64_t{1} << 18;  // of each: 1 MiB in fp32

std::int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t value = 0;
    if (word == "VmHWM:" && status >> value) return value;
  }
  return -1;
}

/// Trains two steps on four threads. A backward call reaches one parameter only, so that no more
/// than one gradient is under way on each rank.
void train(int stage) {
  testing::on_ranks(kWorldSize, [&](const std::shared_ptr<Collective>& comm) {
    at::set_num_threads(1);
    const std::vector<std::vector<std::int64_t>> shapes(kParameters, {kNumel});
    const auto parameters = testing::zeros(shapes, torch::kFloat);
    Optimizer optimizer(parameters, {}, AdamWOptions(0.1),
                        Options().stage(stage).bucket_bytes(1 << 20).first_bucket_bytes(1 << 20),
                        comm);
    for (int step = 0; step < 2; ++step) {
      for (const NamedTensor& p : parameters) optimizer.backward(p.tensor.sum());
      optimizer.step();
    }
    optimizer.shutdown();
  });
}

/// VmHWM of a process that trains at `stage`, in KiB.
std::int64_t measure(int stage) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto answer = std::filesystem::temp_directory_path() /
                      ("peak-" + std::to_string(getpid()) + "-" + std::to_string(stage));
  std::string flag = "--measure", number = std::to_string(stage), file = answer.string(),
              program = self;
  char* const arguments[] = {program.data(), flag.data(), number.data(), file.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  int status = 0;
  waitpid(child, &status, 0);
  std::int64_t kib = -1;
  if (status == 0) std::ifstream(answer) >> kib;
  std::filesystem::remove(answer);
  return kib;
}

TEST(PeakMemory, OfAProcessFallsFromStageToStageAsTheFormulaSays) {
  std::int64_t peaks[3];
  for (const int stage : {0, 1, 2}) {
    peaks[stage] = measure(stage);
    ASSERT_GT(peaks[stage], 0);
  }
  const auto formula = [](int stage) {
    return static_cast<double>(
               testing::table_bytes(stage, kWorldSize, torch::kFloat, kParameters * kNumel)) /
           1024;
  };
  RecordProperty("peak_stage_0_kib", static_cast<int>(peaks[0]));
  RecordProperty("peak_stage_1_kib", static_cast<int>(peaks[1]));
  RecordProperty("peak_stage_2_kib", static_cast<int>(peaks[2]));
  // Stage 1 keeps gradients but not the state: 24 bytes less a parameter over four ranks; stage 2
  // another 16.
  for (const auto& [more, less] : {std::pair{0, 1}, std::pair{1, 2}, std::pair{0, 2}}) {
    const double expected = formula(more) - formula(less);
    EXPECT_NEAR(static_cast<double>(peaks[more] - peaks[less]), expected, 0.1 * expected)
        << "KiB from stage " << more << " to " << less;
  }
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--measure") {
    // Whatever is freed goes back to the system at once, so that the peak is one of live memory.
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    zero::train(std::stoi(argv[2]));
    std::ofstream(argv[3]) << zero::peak_kib() << '\n';
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
