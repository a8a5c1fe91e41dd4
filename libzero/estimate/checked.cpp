#include "libzero/estimate/checked.h"

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;

void require(bool fits) {
  ZERO_REQUIRE(fits,
               "estimate: a size is negative or beyond 2^62 bytes; check the measures of the "
               "model, --micro-batch and --sequence");
}

}  // namespace

std::int64_t size_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    require(factor >= 0 && !__builtin_mul_overflow(product, factor, &product) && product <= kMost);
  }
  return product;
}

std::int64_t size_sum(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    require(term >= 0 && !__builtin_add_overflow(sum, term, &sum) && sum <= kMost);
  }
  return sum;
}

}  // namespace zero
