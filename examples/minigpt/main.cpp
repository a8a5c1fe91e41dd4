/// MiniGPT on any number of ranks: the program to copy from. See README.md beside this file.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "backends/connect.h"
#include "backends/rendezvous/topology.h"
#include "examples/minigpt/failure.h"
#include "examples/minigpt/flags.h"
#include "examples/minigpt/train.h"
#include "libzero/base/error.h"
#include "libzero/train/device.h"

namespace {

constexpr int kUsage = 2;
constexpr int kPeerOrFile = 3;

/// Nothing but the command line was looked at, which all ranks have alike: rank 0 speaks for all,
/// and nobody leaves before it has, since a launcher takes the others down when one does.
int end_without_training(const minigpt::ParsedFlags& parsed, const zero::Topology& topology) {
  const auto say = [&] {
    std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.message.c_str());
  };
  if (topology.rank == 0) say();
  if (parsed.exit_code == 0 || topology.size == 1) return parsed.exit_code;
  try {
    zero::connect({.topology = topology})->shutdown();
  } catch (const zero::Error&) {  // the others have something else to do: it is this rank's flags
    if (topology.rank != 0) say();
  }
  return parsed.exit_code;
}

/// NCCL needs to know the GPU; what keeps it from being used is said on stderr.
zero::ConnectOptions connect_options(const zero::Topology& topology, torch::Device device) {
  zero::ConnectOptions options;
  options.topology = topology;
  if (device.is_cuda()) options.gpu = device.index();
  options.log = [](zero::LogLevel level, std::string_view line) {
    if (level < zero::LogLevel::kWarning) return;
    std::fprintf(stderr, "minigpt: %s\n", std::string(line).c_str());
  };
  return options;
}

/// The others wait for this rank, which cannot train: they hear why.
torch::Device device_of(const minigpt::Flags& flags, const zero::Topology& topology) {
  try {
    return zero::choose_device(flags.device, topology.local_rank);
  } catch (const std::exception& error) {
    if (topology.size > 1) {
      try {
        zero::connect({.topology = topology})->abort(minigpt::text_of(error));
      } catch (const zero::Error&) {  // they have gone, or want a backend that is not here
      }
    }
    throw;
  }
}

int run(int argc, char** argv) {
  const zero::Topology topology = zero::topology_from(zero::process_environment());
  const minigpt::ParsedFlags parsed = minigpt::parse_flags(argc, argv, topology.size);
  if (parsed.exit_code >= 0) return end_without_training(parsed, topology);
  const torch::Device device = device_of(parsed.flags, topology);
  const auto comm = zero::connect(connect_options(topology, device));
  try {
    minigpt::train(parsed.flags, device, comm);
  } catch (const zero::CommError&) {  // it has reached the others, or comes from them
    throw;
  } catch (const std::exception& error) {  // the others would hear only that this rank is gone
    comm->abort(minigpt::text_of(error));
    throw;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const zero::ContractError& error) {
    std::fprintf(stderr, "minigpt: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "minigpt: %s\n", minigpt::text_of(error).c_str());
    return kPeerOrFile;
  }
}
