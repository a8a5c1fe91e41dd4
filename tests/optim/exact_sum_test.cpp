#include "libzero/optim/exact_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

using Words = std::vector<std::int64_t>;

Words words_of(const ExactSum& sum) {
  return {sum.words().begin(), sum.words().end()};
}

ExactSum sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

/// The exact sum as a string of bits with a ripple-carry adder: bit i weighs 2^(i - 320).
class BitSum {
 public:
  void add(double value) {
    // Bit by bit from the top, by comparison only: no decoding of the format.
    for (int exponent = 287; exponent >= -320 && value > 0; --exponent) {
      const double bit = std::ldexp(1.0, exponent);
      if (value < bit) continue;
      value -= bit;
      std::size_t i = static_cast<std::size_t>(exponent + 320);
      while (bits_[i]) bits_[i++] = false;
      bits_[i] = true;
    }
  }

  double rounded() const {
    int top = static_cast<int>(bits_.size()) - 1;
    while (top >= 0 && !bit(top)) --top;
    double result = 0;
    for (int i = top; i > top - 53 && i >= 0; --i)
      result += bit(i) ? std::ldexp(1.0, i - 320) : 0.0;
    const int half = top - 53;
    if (half < 0 || !bit(half)) return result;
    const bool more = std::any_of(bits_.begin(), bits_.begin() + half, [](bool b) { return b; });
    const bool odd = bit(top - 52);
    return more || odd ? result + std::ldexp(1.0, half + 1 - 320) : result;
  }

 private:
  bool bit(int i) const { return bits_[static_cast<std::size_t>(i)]; }
  std::vector<bool> bits_ = std::vector<bool>(700, false);
};

double any_term(int mantissa_bits, int lowest, int highest) {
  const auto mantissa = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << mantissa_bits);
  const auto exponents = rc::gen::inRange(lowest, highest - mantissa_bits);
  return std::ldexp(static_cast<double>(mantissa), *rc::gen::resize(100, exponents));
}

/// Close together, over the whole range, or few bits far apart: the last has ties as a rule, not as
/// an exception.
std::vector<double> any_terms() {
  std::vector<double> terms;
  const int count = *rc::gen::inRange(0, 40);
  const int kind = *rc::gen::inRange(0, 3);
  for (int i = 0; i < count; ++i) {
    terms.push_back(kind == 0   ? any_term(53, -56, 5)
                    : kind == 1 ? any_term(53, -320, 288)
                                : any_term(1, -70, 4));
  }
  return terms;
}

RC_GTEST_PROP(ExactSumProperty, TheValueIsTheExactSumRoundedOnce, ()) {
  const std::vector<double> terms = any_terms();
  BitSum reference;
  for (const double term : terms) reference.add(term);
  RC_ASSERT(sum_of(terms).value() == reference.rounded());
}

RC_GTEST_PROP(ExactSumProperty, ManyTermsAtOnceAreAsOneByOne, ()) {
  const std::vector<double> before = any_terms(), terms = any_terms();
  ExactSum at_once = sum_of(before), one_by_one = sum_of(before);
  at_once.add(terms);
  for (const double term : terms) one_by_one.add(term);
  RC_ASSERT(words_of(at_once) == words_of(one_by_one));
}

TEST(ExactSum, ManyTermsAtOnceLeaveItAsItWasIfOneIsRefused) {
  ExactSum sum = sum_of({2, 3});
  const std::vector<double> terms = {1, 1, -1};
  EXPECT_THROW(sum.add(terms), ContractError);
  EXPECT_EQ(sum.value(), 5);
}

RC_GTEST_PROP(ExactSumProperty, OrderDoesNotMatter, ()) {
  const std::vector<double> terms = any_terms();
  std::vector<double> permuted = terms;
  for (std::size_t i = permuted.size(); i > 1; --i) {
    std::swap(permuted[i - 1], permuted[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  RC_ASSERT(words_of(sum_of(terms)) == words_of(sum_of(permuted)));
  RC_ASSERT(sum_of(terms).value() == sum_of(permuted).value());
}

RC_GTEST_PROP(ExactSumProperty, SplitsOverRanksDoNotMatterNorHowTheyAreJoined, ()) {
  const std::vector<double> terms = any_terms();
  const auto ranks = *rc::gen::inRange<std::size_t>(1, 6);
  std::vector<ExactSum> parts(ranks);
  for (const double term : terms) parts[*rc::gen::inRange<std::size_t>(0, ranks)].add(term);

  Words total(ExactSum::kWords, 0);  // As an integer all-reduce does it.
  ExactSum one_by_one;
  for (const ExactSum& part : parts) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += part.words()[i];
    one_by_one.merge(part.words());
  }
  ExactSum reduced;
  reduced.merge(total);
  const ExactSum whole = sum_of(terms);
  RC_ASSERT(words_of(reduced) == words_of(whole));
  RC_ASSERT(words_of(one_by_one) == words_of(whole));
  RC_ASSERT(reduced.value() == whole.value());
}

RC_GTEST_PROP(ExactSumProperty, ASumOfIntegersEqualsIntegerArithmetic, ()) {
  const auto terms = *rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 46));
  ExactSum sum;
  std::uint64_t expected = 0;
  for (const std::uint64_t term : terms) {
    sum.add(static_cast<double>(term));
    expected += term;
  }
  // Below 2^53 no rounding; 100 terms of 46 bits fit.
  RC_ASSERT(sum.value() == static_cast<double>(expected));
}

TEST(ExactSum, StartsAtZero) {
  EXPECT_EQ(ExactSum().value(), 0.0);
  ExactSum sum;
  sum.add(0.0);
  sum.add(-0.0);
  EXPECT_EQ(sum.value(), 0.0);
  EXPECT_FALSE(std::signbit(sum.value()));
}

TEST(ExactSum, KeepsWhatADoubleWouldLose) {
  EXPECT_EQ(sum_of({0x1p100, 0x1p-100, 0x1p100}).value(), 0x1p101);
  EXPECT_EQ(sum_of({1.0, 0x1p-53, 0x1p-53}).value(), 1.0 + 0x1p-52);
}

TEST(ExactSum, TiesGoToEvenAndAnyBitBelowBreaksThem) {
  EXPECT_EQ(sum_of({1.0, 0x1p-53}).value(), 1.0);
  EXPECT_EQ(sum_of({1.0 + 0x1p-52, 0x1p-53}).value(), 1.0 + 0x1p-51);
  EXPECT_EQ(sum_of({1.0, 0x1p-53, 0x1p-320}).value(), 1.0 + 0x1p-52);
  EXPECT_EQ(sum_of({1.0, 0x1p-54, 0x1p-320}).value(), 1.0);
  // Rounding up may carry into a new leading bit.
  EXPECT_EQ(sum_of({2.0 - 0x1p-52, 0x1p-53}).value(), 2.0);
}

TEST(ExactSum, CoversTheSquaresOfAllFiniteFloats) {
  const double least = std::ldexp(1.0, -298);
  const double largest = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_EQ(sum_of({least}).value(), least);
  EXPECT_EQ(sum_of({4096 * largest * largest}).value(), 4096 * largest * largest);
  EXPECT_EQ(sum_of({0x1p-320}).value(), 0x1p-320);
  EXPECT_EQ(sum_of({std::ldexp(1.0, 287)}).value(), std::ldexp(1.0, 287));
}

TEST(ExactSum, HasRoomForMoreThan2To30TermsOfAnySize) {
  // Doubling by merging: 2^40 terms of all-ones digits at both ends of the range.
  for (const double term : {(0x1p53 - 1) * 0x1p-320, (0x1p53 - 1) * std::ldexp(1.0, 288 - 53)}) {
    ExactSum sum = sum_of({term});
    for (int i = 0; i < 40; ++i) sum.merge(words_of(sum));
    EXPECT_EQ(sum.value(), std::ldexp(term, 40));
  }
  // The word-by-word total of 2^30 ranks that hold the largest digits.
  ExactSum reduced;
  reduced.merge(Words(ExactSum::kWords, std::int64_t{0xffffffff} << 30));
  EXPECT_EQ(reduced.value(), std::ldexp(1.0, 320 + 30));
}

TEST(ExactSum, WordsAreCanonical) {
  ExactSum uncarried;
  Words words(ExactSum::kWords, 0);
  words[3] = std::int64_t{5} << 32;
  uncarried.merge(words);
  EXPECT_EQ(words_of(uncarried), words_of(sum_of({std::ldexp(5.0, 4 * 32 - 320)})));
}

TEST(ExactSum, TermsOutsideTheRangeAreRefusedAndLeaveTheSumAlone) {
  ExactSum sum = sum_of({3.0});
  for (const double bad :
       {-1.0, -0x1p-1000, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), std::ldexp(1.0, 288), std::ldexp(1.0, -321),
        1.5 * std::ldexp(1.0, -320), std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::max()}) {
    EXPECT_THROW(sum.add(bad), ContractError) << bad;
  }
  EXPECT_EQ(words_of(sum), words_of(sum_of({3.0})));
}

TEST(ExactSum, WordsThatNoSumCanHaveAreRefused) {
  ExactSum sum = sum_of({3.0});
  EXPECT_THROW(sum.merge(Words(ExactSum::kWords - 1, 0)), ContractError);
  EXPECT_THROW(sum.merge(Words(ExactSum::kWords + 1, 0)), ContractError);
  Words words(ExactSum::kWords, 0);
  words[7] = -1;
  EXPECT_THROW(sum.merge(words), ContractError);
  words[7] = (std::int64_t{1} << 62) + 1;
  EXPECT_THROW(sum.merge(words), ContractError);
  words[7] = 0;
  words[ExactSum::kWords - 1] = std::int64_t{1} << 62;
  sum.merge(words);
  EXPECT_THROW(sum.merge(words), ContractError);
}

}  // namespace
}  // namespace zero
