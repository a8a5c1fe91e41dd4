#include "tests/gpu_check/fake_faults.h"

#include <chrono>
#include <cmath>
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

void forget_accumulator(nccl::Apis& apis) {
  apis.kernels.ordered_sum = [](const cuda::OrderedSum* args, Stream stream) {
    cuda::OrderedSum wrong = *args;
    wrong.accumulate = 0;
    return right().ordered_sum(&wrong, stream);
  };
}

void sum_for_maximum(nccl::Apis& apis) {
  apis.kernels.ordered_reduce = [](const cuda::OrderedReduce* args, Stream stream) {
    cuda::OrderedReduce wrong = *args;
    wrong.maximum = 0;
    return right().ordered_reduce(&wrong, stream);
  };
}

void idle_adamw(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep*, Stream) { return 0; };
}

void forget_rank(nccl::Apis& apis) {
  apis.kernels.ordered_sum = [](const cuda::OrderedSum* args, Stream stream) {
    cuda::OrderedSum wrong = *args;
    if (wrong.ranks > 1) --wrong.ranks;
    return right().ordered_sum(&wrong, stream);
  };
}

/// One element of each run is stepped twice.
void wrong_bit(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    cuda::AdamWStep again = *args;
    again.count = args->count > 0 ? 1 : 0;
    const int error = right().adamw(args, stream);
    return error != 0 ? error : right().adamw(&again, stream);
  };
}

void slow_adamw(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    return then(right().adamw(args, stream), stream,
                [] { std::this_thread::sleep_for(std::chrono::milliseconds(25)); });
  };
}

void error_of_adamw(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep*, Stream) { return 700; };
}

/// Forgets its momentum.
void wrong_sgd(nccl::Apis& apis) {
  apis.kernels.sgd = [](const cuda::SGDStep* args, Stream stream) {
    cuda::SGDStep wrong = *args;
    wrong.momentum_buffer = nullptr;
    return right().sgd(&wrong, stream);
  };
}

void idle_average(nccl::Apis& apis) {
  apis.kernels.average = [](const cuda::Average*, Stream) { return 0; };
}
void idle_sum(nccl::Apis& apis) {
  apis.kernels.sum_exactly = [](const cuda::SumExactly*, Stream) { return 0; };
}
void idle_prepare(nccl::Apis& apis) {
  apis.kernels.prepare_step = [](const cuda::PrepareStep*, Stream) { return 0; };
}
void idle_cast(nccl::Apis& apis) {
  apis.kernels.cast = [](const cuda::Cast*, Stream) { return 0; };
}

/// What it makes of the first master is no number.
void nan_adamw(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    cuda::AdamWStep broken = *args;
    static const AdamWConstants constants{.decay = NAN};  // read later
    broken.constants = &constants;
    return right().adamw(&broken, stream);
  };
}

void idle_gather(nccl::Apis& apis) {
  apis.nccl.all_gather = [](const void*, void*, std::size_t, int, nccl::NcclComm,
                            nccl::CudaStream) { return 0; };
}

void other_root(nccl::Apis& apis) {
  static const nccl::NcclApi whole = nccl_test::fake_nccl();
  apis.nccl.broadcast = [](const void* in, void* out, std::size_t count, int dtype, int,
                           nccl::NcclComm comm, nccl::CudaStream stream) {
    return whole.broadcast(in, out, count, dtype, /*root=*/0, comm, stream);
  };
}

void crash(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep*, Stream) -> int { std::abort(); };
}

void hang(nccl::Apis& apis) {
  apis.kernels.adamw = [](const cuda::AdamWStep* args, Stream stream) {
    return then(right().adamw(args, stream), stream,
                [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  };
}

const std::map<std::string, void (*)(nccl::Apis&)>& faults() {
  static const std::map<std::string, void (*)(nccl::Apis&)> all = {
      {"no-accumulator", &forget_accumulator},
      {"forgotten-rank", &forget_rank},
      {"sum-for-maximum", &sum_for_maximum},
      {"idle-adamw", &idle_adamw},
      {"wrong-sgd", &wrong_sgd},
      {"idle-average", &idle_average},
      {"idle-sum", &idle_sum},
      {"idle-prepare", &idle_prepare},
      {"idle-cast", &idle_cast},
      {"wrong-bit", &wrong_bit},
      {"slow-adamw", &slow_adamw},
      {"nan-adamw", &nan_adamw},
      {"idle-gather", &idle_gather},
      {"other-root", &other_root},
      {"error", &error_of_adamw},
      {"crash", &crash},
      {"hang", &hang}};
  return all;
}

}  // namespace

std::shared_ptr<const nccl::Apis> faulty_apis(const std::vector<std::string>& names) {
  nccl::Apis apis = *nccl_test::fake_apis();
  for (const std::string& name : names) {
    if (const auto found = faults().find(name); found != faults().end()) found->second(apis);
  }
  return std::make_shared<const nccl::Apis>(apis);
}

}  // namespace zero::gpu_check
