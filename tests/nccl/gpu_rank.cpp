// A small rank for tests: joins the others as one that trains on the GPU whose number is the first
// argument ("-": on none, "local": of its local rank), says how on stderr, and leaves.

#include <cstdlib>
#include <iostream>
#include <string>

#include "backends/connect.h"
#include "libzero/base/error.h"

namespace {

int run(const std::string& gpu) {
  zero::ConnectOptions options;
  options.topology = zero::topology_from(zero::process_environment());
  if (gpu == "local") {
    options.gpu = options.topology->local_rank;
  } else if (gpu != "-") {
    options.gpu = std::atoi(gpu.c_str());
  }
  options.log = [](zero::LogLevel level, std::string_view line) {
    std::cerr << (level == zero::LogLevel::kWarning ? "warning: " : "") << line << std::endl;
  };
  if (options.gpu) std::cout << "trains on GPU " << *options.gpu << std::endl;
  const auto comm = zero::connect(options);
  std::int64_t sum = comm->rank() + 1;
  comm->all_reduce({&sum, 1, zero::DType::kInt64}, zero::ReduceOp::kSum, "sum of ranks")->wait();
  std::cout << "over " << comm->backend() << ": " << sum << std::endl;
  comm->shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "-");
  } catch (const zero::CommError& error) {
    std::cerr << "CommError: " << error.what() << std::endl;
    return 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
