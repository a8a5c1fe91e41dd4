// The kernels themselves: how threads are laid over the bodies of sum_body.h and step_body.h.

#include <cuda_runtime.h>

#include "libzero/kernels/cuda/abi.h"
#include "libzero/kernels/cuda/step_body.h"
#include "libzero/kernels/cuda/sum_body.h"

namespace zero::cuda {
namespace {

constexpr int kThreads = 256;
// Enough to fill any GPU several times; the rest is walked in strides.
constexpr std::int64_t kMostBlocks = 4096;

unsigned grid_for(std::int64_t threads) {
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

__device__ std::int64_t first_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ std::int64_t all_threads() {
  return static_cast<std::int64_t>(gridDim.x) * kThreads;
}

/// Sixteen neighbouring threads share a block of the norm and add up by the pairwise rounds of
/// block_sum_of_squares().
template <class T>
__global__ void sum_kernel(OrderedSum args) {
  const std::int64_t blocks = (args.count + kNormBlock - 1) / kNormBlock;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned mates = 0xffffu << (threadIdx.x % 32 < kLanes ? 0 : kLanes);
  for (std::int64_t block = first_thread() / kLanes; block < blocks;
       block += all_threads() / kLanes) {
    double squares = sum_lane<T>(args, block, lane);
    if (args.block_squares == nullptr) continue;
    for (int half = kLanes / 2; half > 0; half /= 2) {
      squares += __shfl_down_sync(mates, squares, static_cast<unsigned>(half), kLanes);
    }
    if (lane == 0) args.block_squares[block] = squares;
  }
}

template <class T>
__global__ void reduce_kernel(OrderedReduce args) {
  for (std::int64_t i = first_thread(); i < args.count; i += all_threads()) {
    reduce_element<T>(args, i);
  }
}

__global__ void reduce_int64_kernel(OrderedReduce args) {
  for (std::int64_t i = first_thread(); i < args.count; i += all_threads()) reduce_int64(args, i);
}

template <class From, class To>
__global__ void cast_kernel(Cast args) {
  const std::int64_t fours = fours_are_aligned<From, To>(args) ? args.count / 4 : 0;
  for (std::int64_t q = first_thread(); q < fours; q += all_threads()) {
    cast_four<From, To>(args, q);
  }
  for (std::int64_t i = 4 * fours + first_thread(); i < args.count; i += all_threads()) {
    cast_at<From, To>(args, i);
  }
}

__global__ void prepare_kernel(PrepareStep args) {
  prepare(args);
}

template <class Gradient, class Copy>
__global__ void adamw_kernel(AdamWStep args) {
  if (args.state->apply == 0) return;
  const AdamWConstants constants = *args.constants;
  const float factor = args.state->gradient_factor;
  const std::int64_t fours = fours_are_aligned<Gradient, Copy>(args) ? args.count / 4 : 0;
  for (std::int64_t q = first_thread(); q < fours; q += all_threads()) {
    adamw_four<Gradient, Copy>(args, constants, factor, q);
  }
  for (std::int64_t i = 4 * fours + first_thread(); i < args.count; i += all_threads()) {
    adamw_at<Gradient, Copy>(args, constants, factor, i);
  }
}

template <class Gradient, class Copy>
__global__ void sgd_kernel(SGDStep args) {
  if (args.state->apply == 0) return;
  const SGDConstants constants = *args.constants;
  const float factor = args.state->gradient_factor;
  for (std::int64_t i = first_thread(); i < args.count; i += all_threads()) {
    sgd_at<Gradient, Copy>(args, constants, factor, i);
  }
}

__global__ void average_kernel(Average args) {
  if (args.state->apply == 0) return;
  for (std::int64_t i = first_thread(); i < args.count; i += all_threads()) average_at(args, i);
}

/// Integer additions in any order: first within a block of threads, then over all.
__global__ void sum_exactly_kernel(SumExactly args) {
  __shared__ unsigned long long words[kExactWords + 1];
  if (threadIdx.x <= kExactWords) words[threadIdx.x] = 0;
  __syncthreads();
  for (std::int64_t i = first_thread(); i < args.count; i += all_threads()) {
    add_exactly(args.values[i], [](int word, std::uint64_t digit) {
      atomicAdd(&words[word], static_cast<unsigned long long>(digit));
    });
  }
  __syncthreads();
  if (threadIdx.x <= kExactWords && words[threadIdx.x] != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(args.words) + threadIdx.x, words[threadIdx.x]);
  }
}

cudaStream_t as_stream(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}

int launched(bool known_types) {
  return static_cast<int>(known_types ? cudaGetLastError() : cudaErrorInvalidValue);
}

/// What somebody else's call has left behind is not this launch's.
void forget_errors() {
  (void)cudaGetLastError();
}

int ordered_sum(const OrderedSum* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  const std::int64_t threads = (args->count + kNormBlock - 1) / kNormBlock * kLanes;
  return launched(with_element(args->dtype, [&](auto element) {
    sum_kernel<decltype(element)><<<grid_for(threads), kThreads, 0, as_stream(stream)>>>(*args);
  }));
}

int ordered_reduce(const OrderedReduce* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  const unsigned grid = grid_for(args->count);
  if (args->dtype == DType::kInt64) {
    reduce_int64_kernel<<<grid, kThreads, 0, as_stream(stream)>>>(*args);
    return launched(true);
  }
  return launched(args->maximum == 0 && with_element(args->dtype, [&](auto element) {
                    reduce_kernel<decltype(element)>
                        <<<grid, kThreads, 0, as_stream(stream)>>>(*args);
                  }));
}

int cast(const Cast* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  bool known = false;
  with_element(args->from_dtype, [&](auto from) {
    known = with_element(args->to_dtype, [&](auto to) {
      cast_kernel<decltype(from), decltype(to)>
          <<<grid_for((args->count + 3) / 4), kThreads, 0, as_stream(stream)>>>(*args);
    });
  });
  return launched(known);
}

int prepare_step(const PrepareStep* args, Stream stream) {
  forget_errors();
  prepare_kernel<<<1, 1, 0, as_stream(stream)>>>(*args);
  return launched(true);
}

int sgd(const SGDStep* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  return launched(with_step_types(*args, [&](auto gradient, auto copy) {
    sgd_kernel<decltype(gradient), decltype(copy)>
        <<<grid_for(args->count), kThreads, 0, as_stream(stream)>>>(*args);
  }));
}

int average(const Average* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  average_kernel<<<grid_for(args->count), kThreads, 0, as_stream(stream)>>>(*args);
  return launched(true);
}

int sum_exactly(const SumExactly* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  sum_exactly_kernel<<<grid_for(args->count), kThreads, 0, as_stream(stream)>>>(*args);
  return launched(true);
}

int adamw(const AdamWStep* args, Stream stream) {
  if (args->count == 0) return 0;
  forget_errors();
  return launched(with_step_types(*args, [&](auto gradient, auto copy) {
    adamw_kernel<decltype(gradient), decltype(copy)>
        <<<grid_for((args->count + 3) / 4), kThreads, 0, as_stream(stream)>>>(*args);
  }));
}

}  // namespace
}  // namespace zero::cuda

extern "C" __attribute__((visibility("default"))) std::int32_t zero_cuda_kernels(
    zero::cuda::KernelApi* api) {
  *api = {&zero::cuda::ordered_sum,  &zero::cuda::ordered_reduce, &zero::cuda::cast,
          &zero::cuda::prepare_step, &zero::cuda::adamw,          &zero::cuda::sgd,
          &zero::cuda::average,      &zero::cuda::sum_exactly};
  return zero::cuda::kKernelsVersion;
}
