/// MiniGPT on any number of ranks: the program to copy from. See README.md beside this file.

#include <cstdio>
#include <exception>

#include <c10/util/Exception.h>

#include "backends/connect.h"
#include "backends/rendezvous/topology.h"
#include "examples/minigpt/flags.h"
#include "examples/minigpt/train.h"
#include "libzero/base/error.h"

namespace {

constexpr int kUsage = 2;
constexpr int kPeerOrFile = 3;

int run(int argc, char** argv) {
  const zero::Topology topology = zero::topology_from(zero::process_environment());
  const minigpt::ParsedFlags parsed = minigpt::parse_flags(argc, argv, topology.size);
  if (parsed.exit_code >= 0) {
    // Every rank sees the same mistake: one of them says so.
    if (topology.rank == 0)
      std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.message.c_str());
    return parsed.exit_code;
  }
  minigpt::train(parsed.flags, zero::connect({.topology = topology}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const zero::ContractError& error) {
    std::fprintf(stderr, "minigpt: %s\n", error.what());
    return kUsage;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "minigpt: %s\n", error.what_without_backtrace());
    return kPeerOrFile;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "minigpt: %s\n", error.what());
    return kPeerOrFile;
  }
}
