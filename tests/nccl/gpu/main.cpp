// Checks and measures libzero on the GPUs of this machine. Exit code: 0 all right, 1 a number is
// wrong or a call failed, 2 there is nothing to check on.

#include <CLI/CLI.hpp>

#include <iostream>

#include "libzero/base/error.h"
#include "tests/nccl/gpu/check.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Compares libzero's CUDA kernels and its NCCL backend with the CPU, and times them.");
  zero::nccl::LibraryNames names;
  names.kernels = {ZERO_CUDA_KERNELS};
  zero::gpu_check::Settings settings;
  app.add_option("--nccl", names.nccl, "Path of libnccl.so.2");
  app.add_option("--cudart", names.cudart, "Path of libcudart.so");
  app.add_option("--kernels", names.kernels, "Path of libzero_cuda_kernels.so");
  app.add_option("--elements", settings.elements, "Elements of the arrays that are timed")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds, "Launches that are timed")
      ->check(CLI::PositiveNumber);
  app.add_option("--devices", settings.devices, "GPUs to use; 0: all")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return zero::gpu_check::check(zero::nccl::load_apis(names), settings);
  } catch (const zero::Unavailable& error) {
    std::cerr << "gpu_check: nothing was checked. " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "gpu_check: " << error.what() << "\n";
    return 1;
  }
}
