#include "tests/gpu_check/fake_faults.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/streams.h"

namespace zero::gpu_check {
namespace {

using cuda::KernelApi;
using cuda::Stream;

const KernelApi& right() {
  static const KernelApi kernels = nccl_test::fake_kernels();
  return kernels;
}

template <class Body>
int then(int error, Stream stream, Body body) {
  if (error == 0) nccl_test::FakeStream::of(stream).put(body);
  return error;
}

void forget_accumulator(KernelApi& kernels) {
  kernels.ordered_sum = [](const cuda::OrderedSum* args, Stream stream) {
    cuda::OrderedSum wrong = *args;
    wrong.accumulate = 0;
    return right().ordered_sum(&wrong, stream);
  };
}

void sum_for_maximum(KernelApi& kernels) {
  kernels.ordered_reduce = [](const cuda::OrderedReduce* args, Stream stream) {
    cuda::OrderedReduce wrong = *args;
    wrong.maximum = 0;
    return right().ordered_reduce(&wrong, stream);
  };
}

void idle_adamw(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep*, Stream) { return 0; };
}

/// One element of each run is stepped twice.
void wrong_bit(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    cuda::AdamWStep again = *args;
    again.count = args->count > 0 ? 1 : 0;
    const int error = right().adamw(args, stream);
    return error != 0 ? error : right().adamw(&again, stream);
  };
}

void slow_adamw(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    return then(right().adamw(args, stream), stream,
                [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  };
}

void error_of_adamw(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep*, Stream) { return 700; };
}

void crash(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep*, Stream) -> int { std::abort(); };
}

void hang(KernelApi& kernels) {
  kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    return then(right().adamw(args, stream), stream,
                [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  };
}

const std::map<std::string, void (*)(KernelApi&)>& faults() {
  static const std::map<std::string, void (*)(KernelApi&)> all = {
      {"no-accumulator", &forget_accumulator},
      {"sum-for-maximum", &sum_for_maximum},
      {"idle-adamw", &idle_adamw},
      {"wrong-bit", &wrong_bit},
      {"slow-adamw", &slow_adamw},
      {"error", &error_of_adamw},
      {"crash", &crash},
      {"hang", &hang}};
  return all;
}

}  // namespace

std::vector<std::string> kernel_faults() {
  std::vector<std::string> names;
  for (const auto& [name, make] : faults()) names.push_back(name);
  return names;
}

std::shared_ptr<const nccl::Apis> faulty_apis(const std::string& fault) {
  const auto found = faults().find(fault);
  if (found == faults().end()) return nccl_test::fake_apis();
  nccl::Apis apis = *nccl_test::fake_apis();
  found->second(apis.kernels);
  return std::make_shared<const nccl::Apis>(apis);
}

}  // namespace zero::gpu_check
