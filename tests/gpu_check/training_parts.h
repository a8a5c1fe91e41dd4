#pragma once

/// The parts of the check that train with LibTorch.

#include "tests/gpu_check/machine.h"
#include "tests/gpu_check/report.h"
#include "tests/gpu_check/settings.h"

namespace zero::gpu_check {

/// One rank and two ranks on one GPU, whose payload is staged through pinned memory and shared
/// memory, on every stage and in every dtype, beside one rank on the CPU.
void check_bits(const Machine& machine, const Settings& settings, Report& report);

/// step() beside cast + clip + fused AdamW + cast of LibTorch's, on the same state, in turns.
void check_update(const Machine& machine, const Settings& settings, Report& report);

/// State on the GPU and on the host: the same bits, and how long a step takes.
void check_offload(const Machine& machine, const Settings& settings, Report& report);

/// Saved on the GPU, loaded on the CPU, and trained on there.
void check_checkpoint(const Machine& machine, const Settings& settings, Report& report);

/// What the optimizer says it holds beside the formula and what the allocator counted.
void check_memory(const Machine& machine, const Settings& settings, Report& report);

/// A MiniGPT learns.
void check_gpt(const Machine& machine, const Settings& settings, bool is_half, Report& report);

}  // namespace zero::gpu_check
