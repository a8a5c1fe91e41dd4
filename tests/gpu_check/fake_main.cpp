// gpu_check on the fake machine, small: every line of it runs where there is no GPU, and what it is
// to find can be put there with --fault.

#include "tests/gpu_check/fake_machine.h"
#include "tests/gpu_check/program.h"

namespace zero::gpu_check {
namespace {

Settings small() {
  Settings settings;
  settings.elements = 5000;
  settings.adamw_elements = 5000;
  settings.rounds = 2;
  settings.devices = 4;
  settings.parameters = 60'000;
  settings.offload_parameters = 60'000;
  settings.memory_parameters = 600'000;
  settings.memory_bucket_bytes = 40'000;
  settings.exact_parameters = 60'000;
  settings.gpt_steps = 20;
  settings.gpt_width = 32;
  settings.gpt_layers = 1;
  settings.gpt_batch = 8;
  settings.gpt_context = 32;
  settings.gpt_fall = 0.5;
  settings.text = ZERO_GPU_CHECK_TEXT;
  settings.judges_speed = false;
  return settings;
}

}  // namespace
}  // namespace zero::gpu_check

int main(int argc, char** argv) {
  using namespace zero::gpu_check;
  CLI::App app("gpu_check on a machine that is not there.");
  Settings settings = small();
  std::vector<std::string> faults;
  app.add_option("--fault", faults, "What is wrong with the machine")->delimiter(',');
  app.add_flag("--judge-speed", settings.judges_speed, "As on a real one");
  return run_program(app, argc, argv, settings, [&] { return make_fake_machine(faults); });
}
