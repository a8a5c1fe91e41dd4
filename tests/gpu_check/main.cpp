// Checks libzero on the GPUs of this machine. Exit code: 0 all that is demanded is met, 1 something
// is not, 2 there is nothing to check on.

#include "tests/gpu_check/cuda_machine.h"
#include "tests/gpu_check/program.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Compares libzero on this machine's GPUs with the CPU, bit by bit, and measures it beside "
      "LibTorch and the GPU's memory.");
  zero::nccl::LibraryNames names;
  names.kernels = {ZERO_CUDA_KERNELS};
  app.add_option("--nccl", names.nccl, "Path of libnccl.so.2");
  app.add_option("--cudart", names.cudart, "Path of libcudart.so");
  app.add_option("--kernels", names.kernels, "Path of libzero_cuda_kernels.so");
  zero::gpu_check::Settings settings;
  settings.text = ZERO_GPU_CHECK_TEXT;
  return zero::gpu_check::run_program(app, argc, argv, settings,
                                      [&] { return zero::gpu_check::make_cuda_machine(names); });
}
