// libzero's side of peers/cpu_adam.py, which tells it when to step.
//
// usage: update_peer_side MILLIONS
//
// Reads lines from standard input and answers each with a number: "step", the seconds of one AdamW
// step of so many million bf16 parameters with fp32 masters; "sum", the sum of the magnitudes of
// all parameters.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>

#include "benchmarks/kernels/streams.h"
#include "libzero/base/float16.h"

namespace zero::benchmark {
namespace {

double step(const AdamWRun& run, std::int64_t number) {
  const auto start = std::chrono::steady_clock::now();
  adamw_step(adamw_constants({}, number), run);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double sum_of_magnitudes(const std::uint16_t* parameters, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += std::abs(static_cast<double>(float_from_bfloat16(parameters[i])));
  return sum;
}

void serve(std::int64_t n) {
  Streams streams(n);
  const AdamWRun run = streams.run(DType::kBFloat16, /*low_precision=*/true);
  std::cout.precision(17);
  std::int64_t steps = 0;
  for (std::string command; std::getline(std::cin, command);) {
    const bool steps_once = command == "step";
    std::cout << (steps_once ? step(run, ++steps) : sum_of_magnitudes(streams.low_precision(), n))
              << std::endl;
  }
}

}  // namespace
}  // namespace zero::benchmark

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: update_peer_side MILLIONS\n");
    return 2;
  }
  try {
    zero::benchmark::serve(std::stoll(argv[1]) * 1'000'000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "update_peer_side: %s\n", error.what());
    return 3;
  }
  return 0;
}
