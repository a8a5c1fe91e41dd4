// One rank as a process, told what to do on standard input, one command a line, and answering each
// with one line: "ok" or the error. Commands: reduce_scatter <elements> (opened by a
// barrier); stall <elements> (a
// reduce_scatter that says "middle" at its first piece and then waits for a line); barrier; abort
// <why>; shutdown; vanish (exits without a word).

#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"
#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

void reduce_scatter(Collective& comm, std::int64_t each, bool stall) {
  const std::vector<float> in(static_cast<std::size_t>(each * comm.size()), 1.0f);
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
}

void obey(Collective& comm, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  std::int64_t count = 0;
  if (command == "reduce_scatter" && words >> count) return reduce_scatter(comm, count, false);
  if (command == "stall" && words >> count) return reduce_scatter(comm, count, true);
  if (command == "barrier") return comm.barrier("step")->wait();
  if (command == "abort") return comm.abort(line.substr(command.size() + 1));
  if (command == "shutdown") return comm.shutdown();
  if (command == "vanish") std::_Exit(0);
  throw Error("unknown command " + line);
}

int run(int rank, int size, int port, std::chrono::milliseconds timeout) {
  auto comm = join(rank, size, rendezvous::connect_store("127.0.0.1", port, "", timeout), timeout);
  std::cout << "joined" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      obey(*comm, line);
      std::cout << "ok" << std::endl;
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace zero::gloo_test

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves no ranks behind
  if (argc != 5) return 2;
  try {
    return zero::gloo_test::run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
                                std::chrono::milliseconds(std::atoi(argv[4])));
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
