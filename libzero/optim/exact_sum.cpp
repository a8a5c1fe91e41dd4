#include "libzero/optim/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"

namespace zero {
namespace {

constexpr std::uint64_t kDigitMask = 0xffffffffu;
// Each adds less than 2^32 to a word, and a word holds 2^63.
constexpr std::size_t kTermsBetweenCarries = std::size_t{1} << 20;
constexpr double kTermLimit = 0x1p288;
static_assert(ExactSum::kTermLimitExponent == 288);
constexpr std::int64_t kMaxMergedWord = std::int64_t{1} << 62;

void require_term(double value) {
  ZERO_REQUIRE(value >= 0 && value < kTermLimit,
               "A term of an exact sum must be finite, not negative and below 2^288; look for "
               "overflow before adding: " +
                   number_text(value));
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52) - 1075;
  if (value == 0 || exponent >= ExactSum::kLowestExponent) return;
  // A subnormal double has no leading bit, but lies far below 2^-320 and is refused anyway.
  const std::uint64_t mantissa = bits | (std::uint64_t{1} << 52);
  ZERO_REQUIRE(std::countr_zero(mantissa) >= ExactSum::kLowestExponent - exponent,
               "A term of an exact sum must be a multiple of 2^-320; sum squares of float32 values "
               "only: " +
                   number_text(value));
}

/// The words cut into digits of exactly 32 bits; the last word may hold two.
using Digits = std::array<std::uint64_t, ExactSum::kWords + 1>;

/// 64 bits that start at bit `position` of the number, which may lie below its first bit.
std::uint64_t bits_at(const Digits& digits, int position) {
  std::uint64_t result = 0;
  for (int i = 0; i < static_cast<int>(digits.size()); ++i) {
    const int shift = i * ExactSum::kDigitBits - position;
    const std::uint64_t digit = digits[static_cast<std::size_t>(i)];
    if (shift > -ExactSum::kDigitBits && shift < 0) result |= digit >> -shift;
    if (shift >= 0 && shift < 64) result |= digit << shift;
  }
  return result;
}

bool any_bit_below(const Digits& digits, int position) {
  for (int i = 0; i * ExactSum::kDigitBits < position; ++i) {
    const int bits = position - i * ExactSum::kDigitBits;
    const std::uint64_t mask =
        bits >= ExactSum::kDigitBits ? kDigitMask : (std::uint64_t{1} << bits) - 1;
    if ((digits[static_cast<std::size_t>(i)] & mask) != 0) return true;
  }
  return false;
}

}  // namespace

void ExactSum::add(double value) {
  put(value);
  carry();
}

void ExactSum::add(std::span<const double> values) {
  ExactSum sum;
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kTermsBetweenCarries);
    for (const double value : values.first(count)) sum.put(value);
    sum.carry();
    values = values.subspan(count);
  }
  merge(sum.words_);
}

/// Leaves words beyond a digit, each by less than one digit more.
void ExactSum::put(double value) {
  require_term(value);
  const ExactDigits digits = exact_digits(value);
  // A term below 2^288 has no bits in words past the end, although its digits' places may lie
  // there.
  for (std::size_t k = 0; k < std::size(digits.digit); ++k) {
    if (digits.digit[k] != 0)
      words_[static_cast<std::size_t>(digits.word) + k] +=
          static_cast<std::int64_t>(digits.digit[k]);
  }
}

void ExactSum::merge(std::span<const std::int64_t> words) {
  ZERO_REQUIRE(words.size() == kWords,
               "An exact sum has another number of words; merge sums of the "
               "same version only: " +
                   std::to_string(words.size()) + " instead of " + std::to_string(kWords));
  for (const std::int64_t word : words) {
    ZERO_REQUIRE(word >= 0 && word <= kMaxMergedWord,
                 "A word of an exact sum is out of range; add the words of at most 2^30 ranks: " +
                     std::to_string(word));
  }
  ZERO_REQUIRE(words.back() <= kMaxMergedWord - words_.back(),
               "An exact sum is full; its terms were no sums of squares of float32 values: word " +
                   std::to_string(words.back()));
  for (std::size_t i = 0; i < kWords; ++i) words_[i] += words[i];
  carry();
}

void ExactSum::carry() noexcept {
  for (std::size_t i = 0; i + 1 < kWords; ++i) {
    words_[i + 1] += words_[i] >> kDigitBits;
    words_[i] &= static_cast<std::int64_t>(kDigitMask);
  }
}

double ExactSum::value() const noexcept {
  Digits digits{};
  for (std::size_t i = 0; i < kWords; ++i) digits[i] = static_cast<std::uint64_t>(words_[i]);
  digits[kWords] = digits[kWords - 1] >> kDigitBits;
  digits[kWords - 1] &= kDigitMask;

  int top = kWords;
  while (top > 0 && digits[static_cast<std::size_t>(top)] == 0) --top;
  const int length = top * kDigitBits + std::bit_width(digits[static_cast<std::size_t>(top)]);
  if (length == 0) return 0.0;

  // The 64 leading bits: 53 for the result, 11 that decide the rounding together with all below.
  const std::uint64_t window = bits_at(digits, length - 64);
  std::uint64_t mantissa = window >> 11;
  const std::uint64_t rest = window & 0x7ff;
  const bool above_half = rest > 0x400 || (rest == 0x400 && any_bit_below(digits, length - 64));
  if (above_half || (rest == 0x400 && (mantissa & 1) != 0)) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), length - 53 + kLowestExponent);
}

}  // namespace zero
