#include "tests/conformance/faults/rank_program.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"

namespace zero::fault_test {
namespace {

/// What rank r gives as element i of the whole; sums of these depend on their order.
float term(int rank, std::int64_t i) {
  return static_cast<float>(i % 1000) * (rank % 2 == 0 ? 0.1f : -3.7f) + static_cast<float>(rank);
}

void check_sums(const Collective& comm, const std::vector<float>& sums) {
  const auto each = static_cast<std::int64_t>(sums.size());
  for (std::int64_t i = 0; i < each; ++i) {
    float expected = 0.0f;
    for (int r = 0; r < comm.size(); ++r) expected += term(r, comm.rank() * each + i);
    if (sums[static_cast<std::size_t>(i)] != expected) {
      throw Error("a wrong sum at " + std::to_string(i));
    }
  }
}

void reduce_scatter(Collective& comm, std::int64_t each, bool stall) {
  std::vector<float> in;
  for (std::int64_t i = 0; i < each * comm.size(); ++i) in.push_back(term(comm.rank(), i));
  std::vector<float> out(static_cast<std::size_t>(each));
  ReduceScatterOptions options{false, nullptr, "bucket 7: layer.weight"};
  if (stall) {
    options.epilogue = [](std::int64_t begin, std::int64_t) {
      if (begin != 0) return;
      std::cout << "middle" << std::endl;
      std::string line;
      std::getline(std::cin, line);
    };
  }
  comm.barrier("all have their memory")->wait();
  comm.reduce_scatter({in.data(), each * comm.size(), DType::kFloat32},
                      {out.data(), each, DType::kFloat32}, options)
      ->wait();
  check_sums(comm, out);
}

void obey(std::shared_ptr<Collective>& comm, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  std::int64_t count = 0;
  if (command == "reduce_scatter" && words >> count) return reduce_scatter(*comm, count, false);
  if (command == "stall" && words >> count) return reduce_scatter(*comm, count, true);
  if (command == "barrier") return comm->barrier("step")->wait();
  if (command == "abort") return comm->abort(line.substr(command.size() + 1));
  if (command == "shutdown") return comm->shutdown();
  if (command == "vanish") std::_Exit(0);
  if (command == "split") {
    const auto parent = comm;
    comm = parent->split(0, -parent->rank());
    return parent->shutdown();
  }
  throw Error("unknown command " + line);
}

int run(int rank, int size, int port, std::chrono::milliseconds timeout, const JoinRank& join) {
  auto comm = join(rank, size, rendezvous::connect_store("127.0.0.1", port, "", timeout), timeout);
  std::cout << "joined" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      obey(comm, line);
      std::cout << "ok" << std::endl;
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int run_rank_program(int argc, char** argv, const JoinRank& join) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves no ranks behind
  if (argc != 5) return 2;
  try {
    return run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
               std::chrono::milliseconds(std::atoi(argv[4])), join);
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}

}  // namespace zero::fault_test
