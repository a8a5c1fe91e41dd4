#include <memory>
#include <string>

#include "cases.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/sum.h"

namespace zero::benchmark {
namespace {

constexpr double kLimit = 1.08;

Comparison sum_case(Streams& streams, DType dtype, bool accumulate) {
  const bool is_half = dtype == DType::kBFloat16;
  const std::vector<const void*> parts =
      is_half ? std::vector<const void*>{streams.half_gradient(), streams.low_precision()}
              : std::vector<const void*>{streams.gradient(), streams.other_gradient()};
  auto squares =
      std::make_shared<std::vector<double>>(static_cast<std::size_t>(streams.n() / kNormBlock + 1));
  const auto contender = [&streams, parts, dtype, accumulate, squares](bool with_squares) {
    return Contender{nullptr,
                     [=, &streams] {
                       sum_parts(parts, dtype, streams.exp_avg(), streams.n(), accumulate,
                                 with_squares ? squares->data() : nullptr);
                     },
                     nullptr, /*short_and_busy=*/true};
  };
  return {std::string("kernels.norm.") + (is_half ? "bf16" : "fp32") +
              (accumulate ? ".accumulate" : ""),
          "the sum of two ranks' gradients with the norm's squares against the sum alone", kLimit,
          contender(true), contender(false)};
}

}  // namespace

std::vector<Comparison> sum_cases(Streams& streams) {
  std::vector<Comparison> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool accumulate : {false, true})
      cases.push_back(sum_case(streams, dtype, accumulate));
  }
  return cases;
}

}  // namespace zero::benchmark
