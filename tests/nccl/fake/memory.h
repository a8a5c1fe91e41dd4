#pragma once

/// Memory of the fake NCCL's own allocator, and what communicators were told of it.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/nccl/fake/world.h"

namespace zero::nccl_test {

/// Notes a broken rule. Returns what NCCL says of wrong use.
int broken(const std::string& rule);

int fake_mem_alloc(void** memory, std::size_t bytes);
/// Waits for nothing, like the real one.
int fake_mem_free(void* memory);

/// ncclCommRegister, which counts how often it was told of the same, and ncclCommDeregister.
int tell(const FakeComm& comm, void* memory, std::size_t bytes, void** told);
int untell(const FakeComm& comm, void* told);
/// All of it lies in what the communicator was told of.
bool was_told(const FakeComm& comm, const void* data, std::size_t bytes);
/// The real one takes down what it needs to forget memory before it does so itself.
void expect_nothing_told(const FakeComm& comm);

/// A kernel uses its operations' memory from now on, until forget_kernel() of what this returns.
std::int64_t note_kernel(const std::vector<Operation>& operations);
void forget_kernel(std::int64_t id);

}  // namespace zero::nccl_test
