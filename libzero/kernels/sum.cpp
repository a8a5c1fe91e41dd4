#include "libzero/kernels/sum.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"
#include "libzero/kernels/block_norm.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/sum.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

// How far ahead of the arithmetic memory is asked for, in elements.
constexpr std::size_t kSumAhead = 256;
// Streams read at once. More parts than this are added in several passes over a chunk, which stays
// in the first-level cache.
constexpr std::size_t kMostStreams = 4;
constexpr std::int64_t kChunk = 4096;
constexpr std::size_t kBlock = kNormBlock;
static_assert(kChunk % kNormBlock == 0 && kNormBlock % kWidth == 0);

template <class Part, std::size_t kStreams>
struct Streams {
  const typename Part::Stored* parts[kStreams];
  float* out;
  bool from_zero;

  template <class D>
  HWY_INLINE hn::Vec<D> add(D d, std::size_t i) const {
    auto sum = from_zero ? hn::Zero(d) : hn::LoadU(d, out + i);
    for (std::size_t p = 0; p < kStreams; ++p) sum = hn::Add(sum, Part::load(d, parts[p] + i));
    hn::StoreU(sum, d, out + i);
    return sum;
  }

  HWY_INLINE void prefetch(std::size_t i) const {
    hwy::Prefetch(out + i + kSumAhead);
    for (std::size_t p = 0; p < kStreams; ++p) hwy::Prefetch(parts[p] + i + kSumAhead);
  }
};

/// As many elements as a vector holds at most, from i on.
template <bool kSquares, class Part, std::size_t kStreams>
HWY_INLINE void add_width(const Streams<Part, kStreams>& streams, std::size_t i,
                          SquareLanes& squares) {
  const Wide d;
  streams.prefetch(i);
  for (std::size_t j = 0; j < kWidth; j += hn::Lanes(d)) {
    const auto sum = streams.add(d, i + j);
    if constexpr (kSquares) squares.add(j, sum);
  }
}

/// `block_squares`: one for each block, the last one shorter.
template <bool kSquares, class Part, std::size_t kStreams>
void add_streams(const Streams<Part, kStreams>& streams, std::size_t count, double* block_squares) {
  std::size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    SquareLanes squares;
    for (std::size_t j = 0; j < kBlock; j += kWidth) add_width<kSquares>(streams, i + j, squares);
    if constexpr (kSquares) block_squares[i / kBlock] = squares.finish();
  }
  if (i == count) return;
  const std::size_t block = i / kBlock;
  SquareLanes squares;
  for (; i + kWidth <= count; i += kWidth) add_width<kSquares>(streams, i, squares);
  const std::size_t whole = i;
  for (; i < count; ++i) streams.add(Single(), i);
  if constexpr (kSquares) block_squares[block] = squares.finish(streams.out + whole, count - whole);
}

template <class Part, std::size_t kStreams>
void add_streams(const void* const* parts, std::size_t begin, float* out, std::size_t count,
                 bool from_zero, double* block_squares) {
  Streams<Part, kStreams> streams{{}, out, from_zero};
  for (std::size_t p = 0; p < kStreams; ++p) {
    streams.parts[p] = static_cast<const typename Part::Stored*>(parts[p]) + begin;
  }
  if (block_squares != nullptr) return add_streams<true>(streams, count, block_squares);
  add_streams<false>(streams, count, nullptr);
}

/// Elements [begin, begin + count) of every part onto out[0 .. count).
template <class Part>
void add_chunk(Parts parts, std::size_t begin, float* out, std::size_t count, bool accumulate,
               double* block_squares) {
  std::size_t first = 0;
  while (first < parts.size()) {
    const std::size_t streams = std::min(kMostStreams, parts.size() - first);
    const void* const* at = parts.data() + first;
    const bool from_zero = first == 0 && !accumulate;
    double* const squares = first + streams == parts.size() ? block_squares : nullptr;
    switch (streams) {
      case 1:
        add_streams<Part, 1>(at, begin, out, count, from_zero, squares);
        break;
      case 2:
        add_streams<Part, 2>(at, begin, out, count, from_zero, squares);
        break;
      case 3:
        add_streams<Part, 3>(at, begin, out, count, from_zero, squares);
        break;
      default:
        add_streams<Part, 4>(at, begin, out, count, from_zero, squares);
        break;
    }
    first += streams;
  }
}

template <class Part>
void add_all(Parts parts, float* out, std::int64_t count, bool accumulate, double* squares) {
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    add_chunk<Part>(parts, static_cast<std::size_t>(begin), out + begin,
                    static_cast<std::size_t>(std::min(kChunk, count - begin)), accumulate,
                    squares == nullptr ? nullptr : squares + begin / kNormBlock);
  }
}

void sum(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
         double* squares) {
  if (dtype == DType::kFloat32) return add_all<Float32>(parts, out, count, accumulate, squares);
  if (dtype == DType::kBFloat16) return add_all<BFloat16>(parts, out, count, accumulate, squares);
  return add_all<Float16>(parts, out, count, accumulate, squares);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(sum);
}

void sum_parts(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
               double* block_squares) {
  ZERO_REQUIRE(is_floating(dtype),
               "Gradients that are added must be float32, bfloat16 or float16: " +
                   std::string(name_of(dtype)));
  ZERO_REQUIRE(!parts.empty(), "There is nothing to add: parts of 0 ranks");
  HWY_DYNAMIC_DISPATCH(sum)(parts, dtype, out, count, accumulate, block_squares);
}

}  // namespace zero
#endif  // HWY_ONCE
