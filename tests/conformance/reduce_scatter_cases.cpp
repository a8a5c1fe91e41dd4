#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "libzero/kernels/block_norm.h"
#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

// Nothing, one element, odd lengths around a block, and many blocks.
std::vector<std::int64_t> slice_counts(int world_size) {
  return {0, 1, 5, 4096, 4099, 300'001 / world_size};
}

constexpr int kSeed = 10;

/// Slice `rank` of the sum of what the ranks contribute, computed by the contract's formula.
Array expected_slice(DType dtype, std::int64_t count, int rank, int size, const Array* onto) {
  const auto parts = rank_patterns(dtype, count, size, kSeed, rank * count);
  Array expected(DType::kFloat32, count);
  for (std::int64_t i = 0; i < count; ++i) {
    expected.set(i, sum_in_rank_order(parts, i, onto ? onto->at(i) : 0.0f));
  }
  return expected;
}

void check_reduce_scatter(Collective& comm, DType dtype, std::int64_t count, bool accumulate) {
  const Array in = pattern(dtype, count * comm.size(), kSeed + comm.rank());
  Array out = accumulate ? pattern(DType::kFloat32, count, 99) : Array(DType::kFloat32, count);
  const Array before = out;
  comm.reduce_scatter(in.view(), out.buffer(), {accumulate, nullptr, "sum"})->wait();
  EXPECT_TRUE(
      out == expected_slice(dtype, count, comm.rank(), comm.size(), accumulate ? &before : nullptr))
      << "rank " << comm.rank() << ", " << count << " elements";
}

/// Each slice is larger than what a backend is likely to send at once.
void sums_large_slices(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    check_reduce_scatter(*comm, DType::kFloat32, 300'007, false);
  });
}

void sums_bit_for_bit(const Setting& setting, DType dtype, bool accumulate) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::int64_t count : slice_counts(setting.world_size)) {
      check_reduce_scatter(*comm, dtype, count, accumulate);
    }
  });
}

/// Every rank contributes values[its rank, modulo their number] everywhere; `onto`: what the output
/// holds to add to.
Array sum_of(Collective& comm, DType dtype, const std::vector<float>& values,
             std::optional<float> onto) {
  Array in(dtype, comm.size());
  for (int i = 0; i < comm.size(); ++i) {
    in.set(i, values[static_cast<std::size_t>(comm.rank()) % values.size()]);
  }
  Array out(DType::kFloat32, 1);
  if (onto) out.set(0, *onto);
  comm.reduce_scatter(in.view(), out.buffer(), {onto.has_value(), nullptr, ""})->wait();
  return out;
}

/// 30000 overflows float16 at the third rank, 2^-24 underflows where somebody averages first.
void widens_before_it_adds(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto size = static_cast<float>(comm->size());
    EXPECT_EQ(sum_of(*comm, DType::kFloat16, {30000.0f}, 0.0f).at(0), size * 30000.0f);
    EXPECT_EQ(sum_of(*comm, DType::kFloat16, {0x1p-24f}, 0.0f).at(0), size * 0x1p-24f);
    // 256 + 1 is 256 in bfloat16.
    EXPECT_EQ(sum_of(*comm, DType::kBFloat16, {1.0f}, 256.0f).at(0), 256.0f + size);
  });
}

/// (1 + 1e8) - 1e8 is 0 in fp32, (1e8 - 1e8) + 1 is 1: between them, these tell every other order
/// of three ranks.
void adds_in_rank_order(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::vector<float>& values :
         {std::vector{1.0f, 1e8f, -1e8f}, std::vector{1e8f, -1e8f, 1.0f}}) {
      float expected = 0.0f;
      for (int r = 0; r < comm->size(); ++r) expected += values[static_cast<std::size_t>(r) % 3];
      EXPECT_EQ(sum_of(*comm, DType::kFloat32, values, 0.0f).at(0), expected);
    }
  });
}

void keeps_signs_of_zero_and_non_numbers(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const DType dtype : kFloatingTypes) {
      EXPECT_FALSE(std::signbit(sum_of(*comm, dtype, {-0.0f}, std::nullopt).at(0)));
      EXPECT_FALSE(std::signbit(sum_of(*comm, dtype, {-0.0f}, 0.0f).at(0)));
      EXPECT_TRUE(std::signbit(sum_of(*comm, dtype, {-0.0f}, -0.0f).at(0)));
      EXPECT_EQ(sum_of(*comm, dtype, {infinity}, 1.0f).at(0), infinity);
      EXPECT_TRUE(std::isnan(sum_of(*comm, dtype, {std::nanf("")}, 1.0f).at(0)));
    }
  });
}

/// Pieces ascend on one thread, start at multiples of kEpilogueBlock, cover the output once, and
/// are finished when they are shown.
void check_epilogue(Collective& comm, std::int64_t count) {
  const Array in = pattern(DType::kBFloat16, count * comm.size(), kSeed + comm.rank());
  const Array expected = expected_slice(DType::kBFloat16, count, comm.rank(), comm.size(), nullptr);
  Array out(DType::kFloat32, count);
  std::optional<std::thread::id> thread;
  std::int64_t next = 0;
  const auto epilogue = [&](std::int64_t begin, std::int64_t piece) {
    EXPECT_EQ(thread.value_or(std::this_thread::get_id()), std::this_thread::get_id());
    thread = std::this_thread::get_id();
    EXPECT_EQ(begin, next);
    EXPECT_EQ(begin % kEpilogueBlock, 0);
    EXPECT_GT(piece, 0);
    next = begin + piece;
    EXPECT_TRUE(next == count || next % kEpilogueBlock == 0) << next << " of " << count;
    ASSERT_LE(next, count);
    for (std::int64_t i = begin; i < next; ++i) ASSERT_EQ(out.at(i), expected.at(i)) << i;
  };
  comm.reduce_scatter(in.view(), out.buffer(), {false, epilogue, "norm"})->wait();
  EXPECT_EQ(next, count);
}

void shows_finished_pieces(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::int64_t count : slice_counts(setting.world_size)) check_epilogue(*comm, count);
  });
}

/// The blocks' sums of squares are those of the output, and nothing else is written.
void takes_squares(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const bool accumulate : {false, true}) {
      for (const std::int64_t count : slice_counts(setting.world_size)) {
        const Array in = pattern(DType::kBFloat16, count * comm->size(), kSeed + comm->rank());
        Array out(DType::kFloat32, count);
        const auto blocks = static_cast<std::size_t>((count + kNormBlock - 1) / kNormBlock);
        std::vector<double> squares(blocks + 1, -1.0);
        ReduceScatterOptions options{accumulate, nullptr, "norm"};
        options.block_squares = squares.data();
        comm->reduce_scatter(in.view(), out.buffer(), options)->wait();
        const auto* sums = static_cast<const float*>(out.buffer().data);
        for (std::size_t b = 0; b < blocks; ++b) {
          const auto begin = static_cast<std::int64_t>(b) * kNormBlock;
          EXPECT_EQ(squares[b],
                    block_sum_of_squares(sums + begin, std::min(kNormBlock, count - begin)))
              << "block " << b << " of " << count << " elements";
        }
        EXPECT_EQ(squares.back(), -1.0);
      }
    }
  });
}

}  // namespace

std::vector<Case> reduce_scatter_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatingTypes) {
    cases.push_back({"ReduceScatterIsExact" + title_of(dtype),
                     [dtype](const Setting& s) { sums_bit_for_bit(s, dtype, false); }});
    cases.push_back({"ReduceScatterAccumulates" + title_of(dtype),
                     [dtype](const Setting& s) { sums_bit_for_bit(s, dtype, true); }});
  }
  cases.push_back({"ReduceScatterOfLargeSlices", sums_large_slices});
  cases.push_back({"ReduceScatterWidensBeforeItAdds", widens_before_it_adds});
  cases.push_back({"ReduceScatterAddsInRankOrder", adds_in_rank_order});
  cases.push_back({"ReduceScatterKeepsZerosAndNonNumbers", keeps_signs_of_zero_and_non_numbers});
  cases.push_back({"ReduceScatterTakesTheSquaresOfEachBlock", takes_squares});
  cases.push_back({"EpilogueSeesFinishedPiecesOnceInOrder", shows_finished_pieces});
  return cases;
}

}  // namespace zero::testing
