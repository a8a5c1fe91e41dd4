// libzero's kernels on the fake GPU: the very bodies that nvcc compiles, run on the host when their
// turn on the stream comes, thread by thread, in an order of their own.

#include <vector>

#include "libzero/kernels/cuda/step_body.h"
#include "libzero/kernels/cuda/sum_body.h"
#include "tests/nccl/fake/addresses.h"
#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/fake/weather.h"

namespace zero::nccl_test {
namespace {

using cuda::kLanes;
using cuda::Stream;

constexpr int kInvalidValue = 1;

/// Blocks from somewhere in the middle on, lanes backwards: no order is promised.
template <class T>
void sum_blocks(const cuda::OrderedSum& args) {
  const std::int64_t blocks = (args.count + kNormBlock - 1) / kNormBlock;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t block = (b + blocks / 3) % blocks;
    double squares[kLanes];
    for (int lane = kLanes - 1; lane >= 0; --lane) {
      squares[lane] = cuda::sum_lane<T>(args, block, lane);
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) squares[lane] += squares[lane + half];
    }
    if (args.block_squares != nullptr) args.block_squares[block] = squares[0];
  }
}

template <class Body>
void each(std::int64_t count, Body body) {
  for (std::int64_t i = count - 1; i >= 0; --i) body(i);
}

/// Elements four at once, and what is left one by one.
template <class Fours, class Body>
void each_four(std::int64_t fours, std::int64_t count, Fours four, Body body) {
  for (std::int64_t i = count - 1; i >= 4 * fours; --i) body(i);
  each(fours, four);
}

int launch(const char* name, Stream stream, std::function<void()> kernel) {
  FakeStream& fake = FakeStream::of(stream);
  if (const int error = Weather::now().call(name, fake.device()); error != 0) return error;
  fake.put(std::move(kernel));
  return 0;
}

cuda::OrderedSum real(cuda::OrderedSum args) {
  args.parts = behind(args.parts);
  args.own = behind(args.own);
  args.out = behind(args.out);
  args.block_squares = behind(args.block_squares);
  return args;
}

cuda::OrderedReduce real(cuda::OrderedReduce args) {
  args.parts = behind(args.parts);
  args.out = behind(args.out);
  return args;
}

cuda::Cast real(cuda::Cast args) {
  args.from = behind(args.from);
  args.to = behind(args.to);
  return args;
}

cuda::PrepareStep real(cuda::PrepareStep args) {
  args.state = behind(args.state);
  args.groups = behind(args.groups);
  args.constants = behind(args.constants);
  return args;
}

/// AdamWStep or SGDStep.
template <class Step>
Step real_step(Step args) {
  args.state = behind(args.state);
  args.constants = behind(args.constants);
  args.gradient = behind(args.gradient);
  args.master = behind(args.master);
  args.low_precision = behind(args.low_precision);
  return args;
}

cuda::AdamWStep real(const cuda::AdamWStep& given) {
  cuda::AdamWStep args = real_step(given);
  args.exp_avg = behind(args.exp_avg);
  args.exp_avg_sq = behind(args.exp_avg_sq);
  return args;
}

cuda::SGDStep real(const cuda::SGDStep& given) {
  cuda::SGDStep args = real_step(given);
  args.momentum_buffer = behind(args.momentum_buffer);
  return args;
}

cuda::Average real(cuda::Average args) {
  args.state = behind(args.state);
  args.values = behind(args.values);
  args.average = behind(args.average);
  return args;
}

cuda::SumExactly real(cuda::SumExactly args) {
  args.values = behind(args.values);
  args.words = behind(args.words);
  return args;
}

int ordered_sum(const cuda::OrderedSum* args, Stream stream) {
  if (!is_floating(args->dtype)) return kInvalidValue;
  return launch("ordered_sum", stream, [a = real(*args)] {
    cuda::with_element(a.dtype, [&](auto element) { sum_blocks<decltype(element)>(a); });
  });
}

int ordered_reduce(const cuda::OrderedReduce* args, Stream stream) {
  if (args->dtype == DType::kInt64) {
    return launch("ordered_reduce", stream, [a = real(*args)] {
      each(a.count, [&](std::int64_t i) { cuda::reduce_int64(a, i); });
    });
  }
  if (!is_floating(args->dtype) || args->maximum != 0) return kInvalidValue;
  return launch("ordered_reduce", stream, [a = real(*args)] {
    cuda::with_element(a.dtype, [&](auto element) {
      each(a.count, [&](std::int64_t i) { cuda::reduce_element<decltype(element)>(a, i); });
    });
  });
}

int cast(const cuda::Cast* args, Stream stream) {
  if (!is_floating(args->from_dtype) || !is_floating(args->to_dtype)) return kInvalidValue;
  return launch("cast", stream, [a = real(*args)] {
    cuda::with_element(a.from_dtype, [&](auto from) {
      cuda::with_element(a.to_dtype, [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        each_four(
            cuda::fours_are_aligned<From, To>(a) ? a.count / 4 : 0, a.count,
            [&](std::int64_t q) { cuda::cast_four<From, To>(a, q); },
            [&](std::int64_t i) { cuda::cast_at<From, To>(a, i); });
      });
    });
  });
}

int prepare_step(const cuda::PrepareStep* args, Stream stream) {
  return launch("prepare_step", stream, [a = real(*args)] { cuda::prepare(a); });
}

int adamw(const cuda::AdamWStep* args, Stream stream) {
  if (!is_floating(args->gradient_dtype)) return kInvalidValue;
  return launch("adamw", stream, [a = real(*args)] {
    if (a.state->apply == 0) return;
    cuda::with_step_types(a, [&](auto gradient, auto copy) {
      using Gradient = decltype(gradient);
      using Copy = decltype(copy);
      const float factor = a.state->gradient_factor;
      each_four(
          cuda::fours_are_aligned<Gradient, Copy>(a) ? a.count / 4 : 0, a.count,
          [&](std::int64_t q) { cuda::adamw_four<Gradient, Copy>(a, *a.constants, factor, q); },
          [&](std::int64_t i) { cuda::adamw_at<Gradient, Copy>(a, *a.constants, factor, i); });
    });
  });
}

int sgd(const cuda::SGDStep* args, Stream stream) {
  if (!is_floating(args->gradient_dtype)) return kInvalidValue;
  return launch("sgd", stream, [a = real(*args)] {
    if (a.state->apply == 0) return;
    cuda::with_step_types(a, [&](auto gradient, auto copy) {
      each(a.count, [&](std::int64_t i) {
        cuda::sgd_at<decltype(gradient), decltype(copy)>(a, *a.constants, a.state->gradient_factor,
                                                         i);
      });
    });
  });
}

int average(const cuda::Average* args, Stream stream) {
  return launch("average", stream, [a = real(*args)] {
    if (a.state->apply != 0) each(a.count, [&](std::int64_t i) { cuda::average_at(a, i); });
  });
}

int sum_exactly(const cuda::SumExactly* args, Stream stream) {
  return launch("sum_exactly", stream, [a = real(*args)] {
    each(a.count, [&](std::int64_t i) {
      cuda::add_exactly(a.values[i], [&](int word, std::uint64_t digit) {
        a.words[word] += static_cast<std::int64_t>(digit);
      });
    });
  });
}

}  // namespace

cuda::KernelApi fake_kernels() {
  return {&ordered_sum, &ordered_reduce, &cast,       &prepare_step, &adamw,
          &sgd,         &average,        &sum_exactly};
}

}  // namespace zero::nccl_test
