/// A small rank for tests: joins the others (how, it says on stderr), reduces, does what its first
/// argument says, and leaves.

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "backends/connect.h"
#include "libzero/base/error.h"

namespace {

std::int64_t sum_of_ranks(zero::Collective& collective) {
  std::int64_t sum = collective.rank() + 1;
  collective.all_reduce({&sum, 1, zero::DType::kInt64}, zero::ReduceOp::kSum, "sum of ranks")
      ->wait();
  return sum;
}

bool is_first_try() {
  const char* count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return count != nullptr && std::string(count) == "0";
}

int run(const std::string& what) {
  zero::ConnectOptions options;
  options.log = [](zero::LogLevel, std::string_view line) { std::cerr << line << std::endl; };
  const auto collective = zero::connect(options);
  std::cout << "rank " << collective->rank() << " of " << collective->size() << " over "
            << collective->backend() << ": " << sum_of_ranks(*collective) << std::endl;
  if (what == "hang-in-rank-1" && collective->rank() == 1) {
    std::cout << "pid " << ::getpid() << std::endl;
    for (;;) ::pause();
  }
  if (what == "hang-in-rank-1") sum_of_ranks(*collective);
  if (what == "die-in-first-try" && is_first_try()) {
    if (collective->rank() == 1) ::raise(SIGKILL);
    sum_of_ranks(*collective);
  }
  collective->shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const zero::CommError& error) {
    std::cerr << "CommError: " << error.what() << std::endl;
    return 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
