#pragma once

/// Which device a rank trains on.

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

#include "libzero/collective/collective.h"

namespace zero {

/// CUDA as this process finds it.
struct CudaFound {
  int devices = 0;
  std::string missing;  ///< Where there is none: what is missing, and what to do.
};

/// Loads LibTorch's CUDA half, which lies beside its CPU half and which programs need not link, and
/// asks it. LibTorch looks for that half once only: call this before anything asks for CUDA (random
/// states of a GPU, say), from main(). Never throws for a CUDA that is not there.
CudaFound find_cuda();

/// The device for `text`: "cpu"; "cuda", this rank's of its host's GPUs (`local_rank`, or the only
/// one that it can see); "cuda:<number>"; "auto", "cuda" where there is a GPU and "cpu" elsewhere.
/// Makes a GPU this thread's present one. Throws Unavailable saying what is missing where there is
/// no GPU, ContractError for another text, a GPU that is not there, or more ranks than GPUs.
c10::Device choose_device(const std::string& text, int local_rank,
                          const std::function<CudaFound()>& find = find_cuda);

/// Collective. Throws ContractError on every rank, naming two ranks, where two ranks of one host
/// train on one GPU: they halve each other's speed and room, and NCCL refuses them. Ranks on CPUs
/// may be among them. What tells GPUs apart is CUDA_VISIBLE_DEVICES and the device's number; a GPU
/// that is named by number on one rank and by UUID on another is not noticed.
void require_own_devices(c10::Device device, Collective& comm);

/// What CUDA_VISIBLE_DEVICES calls device `index`: an entry of its list, or the number where it is
/// not set.
std::string visible_device(int index, const std::optional<std::string>& visible_devices);

}  // namespace zero
