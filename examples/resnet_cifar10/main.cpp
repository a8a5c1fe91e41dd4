/// ResNet-18 on CIFAR-10, on any number of ranks. See README.md beside this file.

#include <cstdio>
#include <exception>
#include <string>

#include "examples/resnet_cifar10/failure.h"
#include "examples/resnet_cifar10/flags.h"
#include "examples/resnet_cifar10/train.h"
#include "libzero/zero.h"

namespace {

constexpr int kUsage = 2;
constexpr int kPeerOrFile = 3;

int run(int argc, char** argv) {
  const zero::Topology topology = zero::topology_from(zero::process_environment());
  const resnet::ParsedFlags parsed = resnet::parse_flags(argc, argv, topology.size);
  const bool is_speaker = topology.rank == 0;
  if (parsed.exit_code >= 0 && is_speaker)
    std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.message.c_str());
  if (parsed.exit_code == 0) return 0;
  // A launcher takes all ranks down when one fails: meet first, so that rank 0 has spoken.
  const auto comm = zero::connect({.topology = topology});
  if (parsed.exit_code >= 0) {
    comm->shutdown();
    return parsed.exit_code;
  }
  try {
    resnet::train(parsed.flags, comm);
  } catch (const zero::CommError&) {  // it has reached the others, or comes from them
    throw;
  } catch (const std::exception& error) {  // the others would hear only that this rank is gone
    comm->abort(resnet::text_of(error));
    throw;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const zero::ContractError& error) {
    std::fprintf(stderr, "resnet_cifar10: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resnet_cifar10: %s\n", resnet::text_of(error).c_str());
    return kPeerOrFile;
  }
}
